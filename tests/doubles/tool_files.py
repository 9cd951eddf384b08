"""Tool files and queries in the form of StableToolBench, with all that makes names and types hard in the real ones."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONG = "Real-time worldwide quotes of commodities, currencies and crypto for everybody, ex"
PARAMETERS: list[Any] = [
    {"name": "self", "type": "STRING", "description": "kept by Python", "default": ""},
    {"name": "config", "type": "STRING", "description": "kept by LangChain", "default": "a"},
    {"name": "run_manager", "type": "NUMBER", "description": "kept by LangChain", "default": "3"},
    {"name": "args", "type": "BOOLEAN", "description": "a catch-all's name", "default": "true"},
    {"name": "kwargs", "type": "ARRAY", "description": "a catch-all's name", "default": ""},
    {"name": "class", "type": "OBJECT", "description": "a word of Python's", "default": ""},
    {"name": "callbacks", "type": "ENUM", "description": "no type of JSON's", "default": "x"},
    {"name": "model_config", "type": "DATE (YYYY-MM-DD)", "description": None, "default": None},
    {"name": "_private", "description": "no type", "default": 7},
    {"name": "id", "type": None, "description": "no type", "default": {"an": "object"}},
    {"name": "naïve 名前", "type": "string", "description": "other letters", "default": "é"},
    {"name": "naïve_名前", "type": "number", "description": "the same but for a space", "default": "no number"},
    {"name": "q" * 90, "type": "INTEGER", "description": "d" * 3000, "default": "10"},
    {"name": "self", "type": "STRING", "description": "told twice", "default": ""},
    {"name": "", "type": "STRING"},
    {"type": "STRING"},
    None,
]
HARD_NAMES: list[tuple[str, str]] = [
    ("Shop", "Get Item"),
    ("Shop", "Get-Item"),
    ("Shop", "Get_Item"),
    ("Shop", "Get.Item"),
    ("Shop", "Get/Item"),
    ("Shop Get", "Item"),
    ("Shop", "Finish"),
    ("Shop", "class"),
    ("", "Finish"),
    ("", "invalid"),
    ("翻訳", "日本語から英語へ"),
    ("翻訳", "英語から日本語へ"),
    ("😀", "😀"),
    ("Café Crème", "où est-il ?"),
    (LONG, "quotes of today"),
    (LONG, "quotes of yesterday"),
    ("Quotes", LONG + " one"),
    ("Quotes", LONG + " two"),
    ("a" * 31, "b" * 32),
    ("a" * 31, "b" * 33),
    ("  spaces  ", "  around  "),
    ("tab\tand\nline", 'quotes " and \\'),
    ("-", "_"),
    ("123", "456"),
    ("half \ud800", "half \udc00"),
]


@dataclass
class Files:
    """What was written, so that queries can be made of it. `#n` in a description tells an API from all others."""

    folder: Path
    apis: list[dict[str, Any]] = field(default_factory=list)
    """As queries list them."""

    def write(
        self,
        category: str,
        tool: str,
        apis: Iterable[Mapping[str, Any]],
        *,
        flat: bool = False,
        name: str | None = None,
    ) -> None:
        """`flat`: in the folder itself; the file tells its category, unless that is empty."""
        listed = [
            {**api, "description": f"{api.get('description', '')} #{len(self.apis) + n}"} for n, api in enumerate(apis)
        ]
        folder = self.folder if flat else self.folder / category
        folder.mkdir(parents=True, exist_ok=True)
        told: dict[str, Any] = {"tool_name": tool, "tool_description": None, "api_list": listed}
        if flat and category:
            told["tool_category"] = category
        (folder / f"{name or f'tool_{len(self.apis)}'}.json").write_text(json.dumps(told))
        self.apis += [
            {
                "category_name": category or "Data",
                "tool_name": tool,
                "api_name": api["name"],
                "api_description": api["description"],
                "required_parameters": api.get("required_parameters") or [],
                "optional_parameters": api.get("optional_parameters") or [],
            }
            for api in listed
        ]

    def query(
        self, number: int, wanted: Sequence[int], own: Sequence[int] | None = None, words: str = ""
    ) -> dict[str, Any]:
        """One that needs the APIs of these numbers, and was written for `own`; None: it does not tell for which."""
        relevant = [[self.apis[n]["tool_name"], self.apis[n]["api_name"]] for n in wanted]
        listed = {} if own is None else {"api_list": [self.apis[n] for n in own]}
        text = words or f"Query {number}: do {' and '.join(f'#{n}' for n in wanted)}"
        return {**listed, "query": text, "relevant APIs": relevant, "query_id": number}


def hard_files(folder: Path, *, flat: bool = False) -> Files:
    """Every name and parameter that breaks naive programs, and files that are none."""
    files = Files(folder)
    for number, (tool, api) in enumerate(HARD_NAMES):
        kinds = {"required_parameters": PARAMETERS, "optional_parameters": PARAMETERS[:4]}
        described = {"name": api, "description": "d" * 900 if number % 5 == 0 else f"Does {api}"}
        files.write("Odd, things", tool, [{**described, **(kinds if number % 2 else {})}], flat=flat)
    files.write("Elsewhere", "Shop", [{"name": "Get Item", "required_parameters": None}], flat=flat)
    files.write("" if flat else "Twice", "Double", [{"name": "same"}, {"name": "other"}], flat=flat)
    beside = folder if flat else folder / "Odd, things"
    (beside / "broken.json").write_text('{"tool_name": ')
    (beside / "list.json").write_text("[1, 2]")
    (beside / "nothing.json").write_text("")
    (beside / "no_list.json").write_text('{"tool_name": "Empty"}')
    (beside / "nulls.json").write_text(
        '{"tool_name": "Nulls", "tool_description": 3, "api_list": [null, {}, {"name": ""}]}'
    )
    (beside / "._finder.json").write_bytes(b"\x00\x05\x16\x07\xff")
    (beside / ".DS_Store").write_bytes(b"\x00")
    (beside / "folder.json").mkdir()
    return files
