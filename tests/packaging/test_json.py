"""`Json` (any JSON value) is named only where JSON comes in or goes out, and here stands which."""

import ast
import re

import pytest

from tests.packaging.house import ROOT, modules, parse_file

# What the modules that name `Json` read or write; all other values are typed.
JSON = {
    "values of raw rows, and records made of them": """
        converters/sources/containers/sqlite_files
        converters/sources/tables/server_tables
        agent/judging/text_coverage agent/judging/trial agent/lake/file_scan
        agent/ui/example_rows agent/privacy/redactor agent/privacy/redaction
        agent/proposing/columns agent/proposing/llm/data_block agent/proposing/llm/inventory
        agent/proposing/llm/relations agent/proposing/readings agent/proposing/recsys_data
        agent/proposing/doubts/confidence agent/proposing/doubts/unconverted
        agent/proposing/names agent/proposing/rules/documents/trees converters/mapping/loss
        agent/proposing/doubts/row_doubts agent/proposing/doubts/turn_doubts
        agent/proposing/rules/answers/multiple_choice
        agent/proposing/rules/documents/running_text agent/proposing/speakers
        agent/reporting/preview agent/review/golden_rows agent/review/pinning/pin
        agent/review/pinning/sample_redaction
        agent/review/pinning/source_form converters/lake/catalog
        converters/mapping/check converters/mapping/columns/projection
        converters/mapping/lookup converters/mapping/rows/conditions
        converters/mapping/signs converters/recsys/ctr/draft/column_profile
        converters/mapping/row_paths converters/mapping/rows/executor converters/mapping/rows/group
        converters/mapping/rows/values converters/megatron/read/preparation converters/paths
        converters/records/readers converters/records/schema converters/rows
        converters/sources/containers/avro
        converters/sources/containers/mds converters/sources/containers/msgpack_rows
        converters/sources/containers/webdataset
        converters/sources/documents/document_files converters/sources/documents/headers
        converters/sources/formats/arrow converters/sources/interchange/chat_trees
        converters/sources/formats/delimited
        converters/sources/formats/detection converters/sources/formats/json_documents
        converters/sources/formats/json_rows converters/sources/root_candidates
        converters/sources/formats/row_chunks converters/sources/formats/text
        converters/sources/interchange/mail converters/sources/interchange/web_archives
        converters/sources/interchange/xml_rows converters/sources/interchange/yaml_toml
        converters/sources/profile converters/sources/row_runs
        converters/sources/sample converters/sources/tables/partitions
        converters/sources/text_kinds
    """,
    "parts of mapping documents": """
        agent/judging/invented_values agent/privacy/pairs
        agent/proposing/rules/answers/accepted_answers
        agent/proposing/rules/answers/answer_keys
        agent/proposing/rules/answers/preference
        agent/proposing/rules/candidates
        agent/proposing/rules/documents/current_rows
        agent/proposing/rules/documents/typed_blocks
        agent/proposing/rules/passages
        agent/chat/typed_values
        agent/proposing/proposal agent/proposing/rules/context_columns
        agent/proposing/rules/conversations/conversations
        agent/proposing/rules/conversations/dialogue
        agent/proposing/rules/known_layouts agent/proposing/rules/mapper
        agent/proposing/rules/metadata
        agent/proposing/rules/answers/question_answer agent/proposing/rules/answers/sides
        agent/proposing/rules/conversations/pairs_and_events
        agent/proposing/rules/conversations/transcripts
        agent/proposing/rules/conversations/turn_contents
        agent/review/diff/normal_form converters/mapping/bind
        converters/mapping/documents/parser converters/mapping/documents/reader
        converters/mapping/documents/version1 converters/mapping/documents/writer
        converters/mapping/language
    """,
    "requests to models, their replies, and the schemas of these": """
        agent/chat/commands agent/chat/edits agent/chat/prompt agent/chat/responses
        agent/doctor/endpoint_checks agent/model/budget agent/model/cache agent/model/client
        agent/model/json_text agent/model/replies agent/model/request_form agent/model/server_errors
        agent/model/transport agent/proposing/llm/lowering
        agent/proposing/llm/mapper agent/proposing/llm/question agent/proposing/llm/reply
    """,
    "what clients of a served run send, and the answers of people": """
        agent/mcp/confined_folder agent/steps/order_schema
        agent/steps/review
        agent/served/begin agent/served/order_input agent/session agent/state
        agent/ui/conversation_view agent/ui/field_uses
        agent/ui/folder_view agent/ui/onboarding agent/ui/page_server
    """,
    "files of other tools": """
        agent/proposing/card_formats agent/proposing/cards converters/export/axolotl
        converters/export/chat_layout converters/export/llamafactory converters/export/swift
        converters/export/torchtune converters/export/trl
        converters/megatron/chat/template_process converters/megatron/chat/templates
        converters/megatron/tokenizer converters/recsys/monolith/inspect/documents
        converters/sources/storage/listing converters/sources/storage/places
    """,
    "manifests, statistics and metadata on disk, of any version, before they are checked": """
        converters/json_yaml converters/megatron/indexed_dataset
        converters/megatron/inspect/inspection converters/megatron/inspect/merge
        converters/output/commit converters/output/identity converters/output/object_store
        converters/output/store_commit converters/output/difference
        converters/recsys/ctr/preprocess/vocabulary
        converters/recsys/criteo/inspect/folder
        converters/recsys/ctr/preprocess/encoder converters/recsys/ctr/preprocess/fitting
        converters/recsys/ctr/preprocess/job converters/recsys/ctr/preprocess/row_collector
        converters/recsys/ctr/preprocess/row_files converters/recsys/ctr/validation/figures
        converters/recsys/ctr/validation/stats_page
    """,
}
LISTED = [place for places in JSON.values() for place in places.split()]


def names_json(tree: ast.Module) -> bool:
    """Return whether a module names `Json` in its code."""
    return re.search(r"\bJson\b", ast.unparse(tree)) is not None


def untyped_fields(tree: ast.Module) -> list[str]:
    """Return the fields of the classes of a module that may hold any value."""
    fields = [
        ast.unparse(node)
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.AnnAssign)
    ]
    return [field for field in fields if re.search(r"\bJson\b|\bAny\b", field)]


def test_json_is_named_where_it_comes_in_or_goes_out() -> None:
    naming = [
        file.relative_to(ROOT).with_suffix("").as_posix()
        for name, file in modules().items()
        if name.startswith(("ingot.agent", "ingot.converters")) and names_json(parse_file(file))
    ]
    assert sorted(naming) == sorted(LISTED), "say in JSON what a module reads or writes, or type it"


@pytest.mark.parametrize("name", ["agent/steps/course", "agent/context", "agent/state"])
def test_what_steps_pass_is_typed(name: str) -> None:
    assert untyped_fields(parse_file(ROOT / f"{name}.py")) == []


def test_json_is_found_in_code_and_not_in_longer_names() -> None:
    assert names_json(ast.parse("def f(a: list[Json]) -> None: ..."))
    assert names_json(ast.parse("def f(a: 'Json') -> None: ..."))
    assert not names_json(ast.parse("def f(a: JsonPath) -> None: ...  # Json"))


def test_an_untyped_field_is_found() -> None:
    text = "class State:\n    a: Json\n    b: dict[str, Any] = {}\n    c: str\n    any_of: int\n"
    assert untyped_fields(ast.parse(text)) == ["a: Json", "b: dict[str, Any] = {}"]
