"""The page's modules joined into one script: the rules, and that nothing of what they do changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from javascript import NODE

from vrag.server.page_files import STATIC
from vrag.server.page_modules import PageModuleError, join_modules, join_scripts, join_styles

COMPARE = Path(__file__).with_name("joined_modules.cjs")


def joined(folder: Path, **modules: str) -> str:
    """Modules by their names, joined from the first on into one script."""
    (script,) = joined_scripts(folder, **modules).values()
    return script


def joined_scripts(folder: Path, **modules: str) -> dict[str, str]:
    """The same where some are imported when they are needed."""
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return join_modules(folder, f"{next(iter(modules))}.js")


def run(folder: Path, script: str, **further: str) -> list[str]:
    """What a joined script writes, line by line, with further ones beside it."""
    place = folder / "joined"
    place.mkdir()
    (place / "package.json").write_text('{"type": "module"}')
    for name, text in {"app": script, **further}.items():
        (place / f"{name}.js").write_text(text, "utf-8")
    command = [*NODE, "app.js"]
    done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_page_keeps_the_syntax_tree_of_every_module(tmp_path: Path) -> None:
    """The joined script has the statements of each module, in its own function, and nothing else."""
    scripts = join_modules(STATIC / "js", "app.js")
    for name, text in scripts.items():
        (tmp_path / name).write_text(text, "utf-8")
    written = [str(tmp_path / name) for name in scripts]
    command = [*NODE, "--expose-internals", str(COMPARE), str(STATIC / "js"), *written]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    modules = sorted(path.relative_to(STATIC / "js").as_posix() for path in (STATIC / "js").rglob("*.js"))
    assert sorted([*json.loads(done.stdout), "first.js", "unloaded.js"]) == modules


@pytest.mark.slow
def test_modules_run_once_after_those_that_they_import_and_see_their_exports(tmp_path: Path) -> None:
    script = joined(
        tmp_path,
        app="""import { b, twice as double } from "./b.js";
import {
  Part,
  later,
} from "./parts/part.js";
import { again } from "./shared.js";
console.log("app", b, double(2), new Part().name, later(), again);
""",
        b="""/** Doc. */
import { again } from "./shared.js";
export const b = "b" + again;
export { twice };
function twice(x) { return 2 * x; }
console.log("b");
""",
        parts__part="""import { twice as b } from "../b.js";
export { b as again } from "../b.js";
export class Part { #name = `part ${b(4)}`; get name() { return this.#name; } }
export async function* none() {}
export async function other() {}
export function later() { return value; }
const value = 7;
""",
        shared="""console.log("shared");
const name = "!";
export { name as again };
""",
    )
    assert run(tmp_path, script) == ["shared", "b", "app b! 4 part 8 7 !"]


@pytest.mark.slow
def test_the_names_of_a_module_are_its_own(tmp_path: Path) -> None:
    script = joined(
        tmp_path,
        app="""import { value } from "./other.js";
const secret = "app", $other = 1;
function helper() { return secret; }
console.log(helper(), value, typeof hidden, this === undefined);
try { undeclared = 1; } catch (error) { console.log(error.name); }
""",
        other="""const secret = "other", hidden = 1;
function helper() { return secret; }
export const value = helper();
""",
    )
    assert run(tmp_path, script) == ["app other undefined true", "ReferenceError"]


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"a": 'import { b } from "./b.js";', "b": 'import { a } from "./a.js";'}, "a.js → b.js → a.js"),
        ({"a": 'import { a } from "./a.js";'}, "a.js → a.js"),
        ({"a": 'import { b } from "./b.js";'}, "a.js imports b.js: no such file"),
        ({"a": 'import { b } from "../../b.js";'}, "no such file"),
        (
            {"a": 'import { b } from "./b.js";', "b": "export const c = 1;"},
            "imports b from b.js, which does not",
        ),
        ({"a": 'export { b } from "./b.js";', "b": "const b = 1;"}, "imports b from b.js, which does not"),
        ({"a": 'import b from "./b.js";'}, "cannot be joined"),
        ({"a": 'import * as b from "./b.js";'}, "cannot be joined"),
        ({"a": 'import "./b.js";'}, "cannot be joined"),
        ({"a": "import { b } from './b.js';"}, "cannot be joined"),
        ({"a": 'import { b } from "./b.js" with { type: "json" };'}, "cannot be joined"),
        ({"a": 'import { default as b } from "./b.js";'}, "not a name"),
        ({"a": 'import { "b" as c } from "./b.js";'}, "not a name"),
        ({"a": 'import { b } from "https://elsewhere/b.js";'}, "Begin the path"),
        ({"a": 'import { b } from "/static/b.js";'}, "Begin the path"),
        ({"a": "export let a = 1;"}, "cannot be joined"),
        ({"a": "export default 1;"}, "cannot be joined"),
        ({"a": "export const { b } = c;"}, "cannot be joined"),
        ({"a": 'export * from "./b.js";'}, "cannot be joined"),
    ],
)
def test_what_the_rules_do_not_know_is_refused(tmp_path: Path, modules: dict[str, str], message: str) -> None:
    with pytest.raises(PageModuleError) as refused:
        joined(tmp_path, **modules)
    assert message in f"{refused.value.message} {refused.value.hint}"


class TestLater:
    """Modules that are imported when they are needed."""

    MODULES: ClassVar = {
        "app": """import { state } from "./state.js";
async function start() {
  console.log("start", state.count);
  const { open, view } = await import("./parts/viewer.js");
  open();
  const load = () => import("./documents.js");
  (await load()).show();
  console.log(state.count, view, await (await import("./parts/viewer.js")).nested());
}
start();
""",
        "state": "export const state = { count: 0 };\n",
        "once": "console.log('once');\nexport const both = 'both';\n",
        "own": "export const name = 'own';\n",
        "parts__viewer": """import { state } from "../state.js";
import { both } from "../once.js";
import { name } from "../own.js";
function open() { state.count += 1; console.log("viewer", both, name); }
export { open, name as view };
export const nested = async () => (await import("../more.js")).more;
""",
        "documents": """import { both } from "./once.js";
import { state } from "./state.js";
export const show = () => { state.count += 1; console.log("documents", both); };
""",
        "more": "export const more = 'more';\n",
    }

    @pytest.mark.slow
    def test_have_a_script_of_their_own_and_share_the_others(self, tmp_path: Path) -> None:
        scripts = joined_scripts(tmp_path, **self.MODULES)
        assert [*scripts] == ["app.js", "parts-viewer.js", "documents.js", "more.js"]
        assert [script.count("'once'") for script in scripts.values()] == [1, 0, 0, 0]
        assert [script.count("'own'") for script in scripts.values()] == [0, 1, 0, 0]
        app = scripts.pop("app.js")
        assert run(tmp_path, app, **{name.removesuffix(".js"): text for name, text in scripts.items()}) == [
            "start 0",
            "once",
            "viewer both own",
            "documents both",
            "2 own more",
        ]

    def test_are_not_imported_at_once_too(self, tmp_path: Path) -> None:
        with pytest.raises(PageModuleError, match=r"b\.js is imported when it is needed, and"):
            joined_scripts(
                tmp_path, a='import { b } from "./b.js";\nawait import("./b.js");', b="export const b = 1;"
            )

    @pytest.mark.slow
    def test_in_the_types_of_comments_are_none(self, tmp_path: Path) -> None:
        script = joined(tmp_path, a='const a = /** @type {import("./b.js").B} */ (1);\nconsole.log(a);\n')
        assert run(tmp_path, script) == ["1"]

    def test_that_do_not_exist_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(PageModuleError, match=r"imports b\.js: no such file"):
            joined(tmp_path, a='const load = () => import("./b.js");')


@pytest.mark.slow
def test_every_process_joins_them_alike(tmp_path: Path) -> None:
    """The addresses of the files hold their hash: browsers keep them over a restart."""
    names = [f"shared{number}" for number in range(8)]
    part = "".join(f'import {{ {name} }} from "./{name}.js";\n' for name in names)
    joined_scripts(
        tmp_path,
        app='const loads = [() => import("./a.js"), () => import("./b.js")];',
        a=part + "export const a = 1;",
        b=part + "export const b = 1;",
        **{name: f"export const {name} = 1;" for name in names},
    )
    code = "import sys; from pathlib import Path; from vrag.server.page_modules import join_modules; "
    code += "print(join_modules(Path(sys.argv[1]), 'app.js'))"
    written = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(written) == 1


@pytest.mark.slow
def test_comments_on_their_own_lines_are_left_out_and_no_others(tmp_path: Path) -> None:
    script = joined(
        tmp_path,
        a="""/** One. */
// Two.
  /*
   * Three *** /
   */
const a = /** @type {any} */ (1); // four
/** five */ console.log(a, "// six", '/* seven */', `
nine /* ten */`, /\\/*eleven/.test("/eleven"), 4 / 2 / 1);
""",
    )
    assert all(word not in script for word in ("One", "Two", "Three"))
    assert all(word in script for word in ("four", "five", "six", "seven", "ten", "eleven"))
    assert run(tmp_path, script) == ["1 // six /* seven */ ", "nine /* ten */ true 2"]


def test_styles_and_scripts_keep_their_order_and_all_but_comments() -> None:
    assert join_styles(["/* a */\nb { c: d } /* e\n* f */\n", "g { h: i }\n"]) == "\nb { c: d }\ng { h: i }\n"
    assert join_scripts(["/* a */\n{ b(); }\n", "// c\n{ d(); } // e\n"]) == "{ b(); }\n{ d(); } // e\n"


def test_no_style_sheet_has_the_sign_of_a_comment_in_a_string() -> None:
    text = join_styles([path.read_text("utf-8") for path in sorted(STATIC.glob("css/*.css"))])
    assert "/*" not in text
    assert "*/" not in text
    assert text.count('"') % 2 == 0


@given(st.text(alphabet='importexpofasc{}"./*;,= \n\t$`', max_size=80))
def test_whatever_a_module_holds_it_is_joined_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    try:
        script = joined(folder, a=text)
    except PageModuleError as refused:
        message = refused.message
    else:
        message = script
    assert message.startswith(
        ("a.js ", "a.js: ", "Modules import each other: a.js ", "// a.js\nconst $a = (() => {\n")
    )
