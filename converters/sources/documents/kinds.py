"""What kind of document a file is by its name, or by its beginning where the name says nothing."""

import re
from typing import Final

DOCUMENT, CHAPTERS = DOCUMENTS = ("document", "chapters")  # the formats
MARKDOWN, RST, HTML, NOTEBOOK, LATEX, CODE, TEXT = (
    "markdown", "rst", "html", "notebook", "latex", "code", "text",
)  # fmt: skip
_PROSE: Final = {
    MARKDOWN: "md markdown mdown mkd mdx qmd rmd",
    RST: "rst rest",
    HTML: "html htm xhtml",
    NOTEBOOK: "ipynb",
    LATEX: "tex ltx",
    TEXT: "txt text adoc asciidoc org",
}
# Endings by programming language; "" where an ending is that of several.
_LANGUAGES: Final = (
    "ada=adb ads, assembly=asm s, awk=awk, batch=bat cmd, c=c h, c#=cs, c++=cc cpp "
    "cxx hh hpp hxx, clojure=clj cljs, cmake=cmake, cobol=cbl cob, common lisp=lisp, css=css "
    "scss sass less, cuda=cu cuh, dart=dart, elixir=ex exs, elm=elm, emacs lisp=el, erlang=erl "
    "hrl, f#=fs fsx, fortran=f f90 f95 f03 for, go=go, graphql=graphql gql, groovy=groovy "
    "gradle, haskell=hs lhs, hcl=tf hcl, ini=ini cfg, java=java, javascript=js mjs cjs jsx, "
    "julia=jl, kotlin=kt kts, lua=lua, makefile=mk, nim=nim, nix=nix, objective-c++=mm, "
    "ocaml=ml mli, pascal=pas, perl=pl pm, php=php, powershell=ps1 psm1, prolog=pro, "
    "protobuf=proto, python=py pyi pyx, r=r, racket=rkt, ruby=rb rake, rust=rs, scala=scala sc, "
    "scheme=scm ss, shell=sh bash zsh fish, solidity=sol, sql=sql, svelte=svelte, swift=swift, "
    "systemverilog=sv svh, tcl=tcl, tex=sty cls, toml=toml, typescript=ts tsx, vhdl=vhd vhdl, "
    "vim script=vim, visual basic=vb, vue=vue, yaml=yaml yml, zig=zig, =d m v"
)
_CODE: Final = dict(pair.split("=") for pair in _LANGUAGES.split(", "))
_OF_ENDING: Final = {
    **{ending: (kind, "") for kind, endings in _PROSE.items() for ending in endings.split()},
    **{ending: (CODE, name) for name, endings in _CODE.items() for ending in endings.split()},
}
_OF_NAME: Final = {
    **dict.fromkeys(("makefile", "gnumakefile"), (CODE, "makefile")),
    **{"cmakelists.txt": (CODE, "cmake"), "dockerfile": (CODE, "dockerfile")},
}
_SETTINGS: Final = ("ini", "toml", "yaml")  # languages
_PACKED: Final = ("gz", "gzip", "zst", "zstd", "bz2", "xz")
_SHEBANG: Final = re.compile(rb"#! ?/\S{1,80}?/(?:env (?:-S )?)?([a-zA-Z]{1,20})[\d.]{0,8}(?=\s|$)")
_INTERPRETERS: Final = {
    **dict.fromkeys(("sh", "bash", "dash", "ksh", "zsh", "fish"), "shell"),
    **dict.fromkeys(("awk", "gawk", "mawk"), "awk"),
    **{name: name for name in ("julia", "lua", "perl", "php", "python", "ruby")},
    **dict.fromkeys(("node", "nodejs", "deno", "bun"), "javascript"),
    "Rscript": "r",
    "tclsh": "tcl",
}
PAGE: Final = re.compile(
    rb"\s{0,999}(?:<!--.{0,999}?-->\s{0,999})?<(?:!doctype html|html)\b", re.I | re.S
)

# ISO 639-1, the codes that the Library of Congress lists (2002, unchanged since).
ISO_639_1: Final = frozenset(
    (  # noqa: SIM905 - a list of 184 literals is no easier to read
        "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu "
        "cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi "
        "ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks "
        "ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl "
        "nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl "
        "sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve "
        "vi vo wa wo xh yi yo za zh zu"
    ).split()
)
# Endings of texts that are no documents of a kind; those of languages and splits follow a name.
_PLAIN_ENDINGS: Final = frozenset(
    ("log", "asc", "utf8", "wiki", "train", "dev", "test", "valid", "validation", "eval")
)
_ENDING: Final = re.compile(r"[a-z][a-z0-9_+-]{0,11}")
# Languages in which data is written as often as programs.
_DATA_LANGUAGES: Final = (*_SETTINGS, "sql")

CODE_ENDINGS: Final = frozenset(
    ending
    for name, endings in _CODE.items()
    if name not in (*_SETTINGS, "css")
    for ending in endings.split()
)
PROSE_ENDINGS: Final = frozenset(
    ending for kind in (MARKDOWN, RST, LATEX) for ending in _PROSE[kind].split()
)


def bare_name(name: str) -> str:
    """Return a file's name in small letters, without folders and the ending of a compression."""
    base = name.rpartition("/")[2].lower()
    ending = base.rpartition(".")[2]
    return base.removesuffix(f".{ending}") if ending in _PACKED else base


def kind_by_name(name: str) -> tuple[str, str] | None:
    """Return the kind of a file and its programming language ("": none, or unknown).

    None by others.
    """
    base = bare_name(name)
    known = _OF_NAME.get(base)
    return known or (_OF_ENDING.get(base.rpartition(".")[2]) if "." in base else None)


def document_kind(name: str, head: bytes) -> tuple[str, str] | None:
    """Return the kind by name; for other names detect a script by its first line, or a web page."""
    if kind := kind_by_name(name):
        return kind
    if match := _SHEBANG.match(head):
        return CODE, _INTERPRETERS.get(match[1].decode(), "")
    return (HTML, "") if PAGE.match(head) else None


def unknown_ending(name: str) -> str:
    """Return the ending of a name that says of no text that ingot knows what it is.

    "" of others.
    """
    ending = bare_name(name).rpartition(".")[2] if "." in bare_name(name) else ""
    known = ending in (*_PLAIN_ENDINGS, *ISO_639_1) or kind_by_name(name)
    return "" if known or not _ENDING.fullmatch(ending) else ending


def may_be_syntax(name: str) -> bool:
    """Return whether a text with this name may be written for machines; code is not meant."""
    kind, language = kind_by_name(name) or (TEXT, "")
    return kind == TEXT or language in _DATA_LANGUAGES


def is_code(name: str) -> bool:
    """Return whether a name is that of source code, and none of settings."""
    kind, language = kind_by_name(name) or ("", "")
    return kind == CODE and language not in _SETTINGS


def is_settings(name: str) -> bool:
    """Return whether a name is that of settings: data of another program as often as a document."""
    return (kind_by_name(name) or ("", ""))[1] in _SETTINGS
