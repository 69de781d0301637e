"""The conversations of the page: begun, changed by the commands of `ingot chat`, converted.

They are kept where `ingot chat` keeps its own, so that either goes on with the other's. A mapping
is approved by the person who presses the button; the same checks hold as in the terminal.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ingot.agent.chat.conversation import ChatStore, Conversation
from ingot.agent.chat.operations import (
    begin_conversation,
    conclude_conversation,
    convert_conversation,
    discuss_state,
    recheck_conversation,
)
from ingot.agent.chat.responses import approve_mapping, respond
from ingot.agent.context import Context, state_home
from ingot.agent.judging.policy import failed_gates
from ingot.agent.lake import review_queue
from ingot.agent.lake.lake_order import SETS, LakeOrder
from ingot.agent.lake.lake_state import LakeState
from ingot.agent.proposing.proposal import confidence_text
from ingot.agent.reporting.proposal_folder import save_mapping
from ingot.agent.served.order_input import check_confined, check_inside, name_below, place_below
from ingot.agent.steps.order_schema import check_order
from ingot.agent.ui.conversation_view import list_uses, view_conversation, view_reply
from ingot.agent.ui.example_rows import Facts, RowFilter, view_rows
from ingot.converters.errors import ConversionError, IngotError, SourceError
from ingot.converters.json_yaml import encode, json_digest
from ingot.converters.lake.catalog import SetFacts
from ingot.converters.lake.survey import DataSet
from ingot.converters.progress import Progress
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingot.agent.proposing.llm.mapper import ModelAccess

Tell = Callable[[str, Json], None]  # an event of a stream: its name and what it says
_MOST_OPEN = 8  # conversations whose data stays open
_MOST_LISTED, _MOST_SETS = 50, 1_000
_APPROVING = ("ok", "approve")
_WAITING = (
    "name",
    "place",
    "why",
    "decision",
    "confidence",
    "coverage",
    "files",
    "bytes",
    "format",
)


@dataclass(kw_only=True)
class _Open:
    """A conversation with its data; `lake` and `name` say which waiting set it is about."""

    conversation: Conversation
    context: Context
    converting: bool = False
    lake: Path | None = None
    name: str = ""


class Onboarding:
    """All conversations below one folder. One piece of work is done at a time, but conversions."""

    def __init__(self, root: Path, asking: "ModelAccess | None", mapper: str) -> None:
        self.root, self.asking, self.mapper = root, asking, mapper
        self._chats = ChatStore(state_home())
        self._open: dict[str, _Open] = {}
        self._lock = Lock()

    def list_conversations(self) -> list[Facts]:
        """Return the saved conversations about data below the root, the latest first."""
        summaries = []
        for summary in self._chats.listed():
            with suppress(IngotError, OSError, ValueError):
                check_inside(summary.source, self.root)
                summaries.append({**encode(summary), "source": self._name(summary.source)})
        return summaries[:_MOST_LISTED]

    def begin(self, source: str, mode: str, tell: Tell) -> Facts:
        """Propose a mapping, and begin a conversation about it."""
        document: Json = {"source": self._place(source), "mode": mode, "mapper": self.mapper}
        order = check_order(document)
        check_confined(order, self.root)
        with self._lock:
            context = self._context()
            begun = begin_conversation(
                self._chats.new_id(), order, context, lambda node: tell("step", {"node": node})
            )
            self._chats.keep(begun)
            return self._view(self._hold(_Open(conversation=begun, context=context)))

    def view(self, id_: str) -> Facts:
        """Show a conversation as it is; the data is read anew where it is not open."""
        with self._lock:
            return self._view(self._find(id_))

    def view_rows(self, id_: str, wanted: RowFilter) -> Facts:
        """Show the rows of the sample that are asked for, beside their records."""
        with self._lock:
            opened = self._find(id_)
            uses = list_uses(opened.conversation)
            return view_rows(opened.conversation, opened.context, uses, wanted)

    def say(self, id_: str, line: str, tell: Tell) -> Facts:
        """Carry out a line as `ingot chat` does; nothing is converted by it."""
        with self._changed(id_) as opened:
            reply = respond(
                opened.conversation, line, opened.context, lambda word: tell("word", {"text": word})
            )
            opened.conversation = self._inside(reply.conversation, opened.conversation)
            if reply.do in ("convert", "quit") or line.strip().lstrip("/").lower() in _APPROVING:
                reply = replace(reply, show=(), say="Nothing is approved here: use the button.")
            elif reply.do == "save":
                file = save_mapping(reply.conversation.state, Path(self._place(reply.text)))
                reply = replace(reply, say=f"written: {self._name(file)}")
            elif reply.do == "edit":
                reply = replace(reply, say="This page has no editor: change it by commands.")
            return {**view_reply(reply, opened.context), "view": self._view(opened)}

    @contextmanager
    def _changed(self, id_: str) -> "Iterator[_Open]":
        """A conversation that is changed and kept, or stays as it was."""
        with self._lock:
            opened = self._find(id_)
            if opened.converting:
                raise ConversionError(id_, "is being converted", "wait until it is done")
            before = opened.conversation
            try:
                yield opened
                if opened.conversation is not before and opened.lake is None:
                    self._chats.keep(opened.conversation)
            except Exception:
                opened.conversation, opened.converting = before, False
                if opened.lake is None:  # it may have gone on elsewhere: it is read anew
                    self._open.pop(id_, None)
                raise

    def approve(self, id_: str, seen: str, out: str, tokenizer: str | None, tell: Tell) -> Facts:
        """Convert what the person has seen and approved.

        `seen` is the `digest` of the view that they looked at. Raises ConversionError if the
        mapping is another one now, or fails a gate.
        """
        with self._changed(id_) as opened:
            named = {"tokenizer": self._place(tokenizer)} if tokenizer else {"tokenizer": None}
            order = replace(opened.conversation.order, out=self._place(out), **named)
            check_confined(order, self.root)
            _check_seen(opened, seen)
            if gates := failed_gates(opened.conversation.state.get("problems", ())):
                raise ConversionError(id_, f"does not pass: {'; '.join(gates)}")
            reply = approve_mapping(replace(opened.conversation, order=order))
            if reply.do != "convert":
                raise ConversionError(id_, reply.say or "is decided in its lake")
            opened.conversation, opened.converting = reply.conversation, True
        try:
            opened.context.progress = lambda done: tell("progress", _progress_facts(done))
            state = convert_conversation(opened.conversation, opened.context)
            done = conclude_conversation(opened.conversation, state)
            with self._lock:
                opened.conversation = done
                self._chats.keep(done)
        finally:
            opened.converting, opened.context.progress = False, None
        return self.view(id_)

    # --- lakes

    def view_lake(self, lake: str) -> Facts:
        """Count the data sets of a lake by status, and list those that wait for a person."""
        order = self._lake_order(lake)
        sets = [data_set.facts for data_set in order.state.sets().values()]
        words = review_queue.name_statuses(order)
        return {
            "path": lake,
            "root": self._name(order.root),
            "sets": len(sets),
            "records": sum(data_set.records.get("written", 0) for data_set in sets),
            "by_status": dict(Counter(words.values())),
            "data_sets": [
                self._lake_set(order, data_set, words[data_set.name])
                for data_set in sets[:_MOST_SETS]
            ],
            "waiting": [*map(_waiting_facts, review_queue.waiting_sets(order))],
        }

    def _lake_set(self, order: LakeOrder, data_set: SetFacts, status: str) -> Facts:
        result = order.out / SETS / data_set.name
        is_there = data_set.status == "converted" and (result / "manifest.json").is_file()
        facts = {"name": data_set.name, "status": status, "why": data_set.why}
        return {**facts, "result": self._name(result) if is_there else None}

    def open_waiting(self, lake: str, name: str) -> Facts:
        """Begin a conversation about the proposal of a data set that waits."""
        with self._lock:
            order = self._lake_order(lake)
            _, data_set = _find_waiting(order, name)
            shown = review_queue.load_proposal(order, data_set)
            wanted = replace(shown.state["order"], out=None, mapper=self.mapper)
            context = shown.context
            context.asking, context.root = self.asking, self.root
            begun = discuss_state(self._chats.new_id(), wanted, shown.state)
            begun = replace(begun, under_review=True)
            opened = _Open(conversation=begun, context=context, lake=order.out, name=name)
            return self._view(self._hold(opened))

    def approve_waiting(self, id_: str, seen: str) -> Facts:
        """Approve a waiting data set as `ingot lake review` does; `seen` as in `approve`."""
        with self._lock:
            opened, order, facts, data_set = self._find_decision(id_)
            _check_seen(opened, seen)
            shown = review_queue.load_proposal(order, data_set)
            own = shown.mapping if shown.moved else None
            if opened.conversation.at:  # something was changed
                mapping, made = review_queue.talked_mapping(shown, opened.conversation)
                shown = review_queue.try_mapping(order, data_set, mapping, provenance=made)
                own = shown.mapping
            review_queue.check_gates(order, data_set, shown)
            file = review_queue.approve(order, facts, own)
            del self._open[id_]
            return {"mapping": self._name(file)}

    def reject_waiting(self, id_: str) -> Facts:
        """Reject a waiting data set as `ingot lake review` does."""
        with self._lock:
            _, order, facts, data_set = self._find_decision(id_)
            review_queue.reject(order, facts, data_set)
            del self._open[id_]
            return {"mapping": None}

    def _find_decision(self, id_: str) -> tuple[_Open, LakeOrder, SetFacts, DataSet]:
        opened = self._open.get(id_)
        if opened is None or opened.lake is None:
            raise ConversionError(
                id_, "this data set is not open for a decision", "open it from its lake"
            )
        order = self._lake_order(self._name(opened.lake))
        return opened, order, *_find_waiting(order, opened.name)

    def _lake_order(self, lake: str) -> LakeOrder:
        place = Path(self._place(lake))
        check_inside(str(LakeState(place).folder / "state.sqlite"), self.root)
        order = review_queue.known_order(place)
        for each in (order.root, str(order.mappings)):
            if Path(each).resolve() != self.root:
                check_inside(each, self.root)
        return order

    # --- parts

    def _inside(self, now: Conversation, before: Conversation) -> Conversation:
        """The conversation with its output folder below the root, where a line has set one."""
        if not now.order.out or now.order.out == before.order.out:
            return now
        return replace(now, order=replace(now.order, out=self._place(now.order.out)))

    def _find(self, id_: str) -> _Open:
        if id_ in self._open:
            self._open[id_] = self._open.pop(id_)  # the last used is the last
            return self._open[id_]
        try:
            conversation = self._chats.load(id_)
        except KeyError:
            raise ConversionError(id_, "no saved conversation has this id") from None
        check_confined(conversation.order, self.root)
        context = self._context()
        conversation = replace(conversation, under_review=False)
        return self._hold(
            _Open(conversation=recheck_conversation(conversation, context), context=context)
        )

    def _hold(self, opened: _Open) -> _Open:
        self._open[opened.conversation.id] = opened
        idle = [id_ for id_, opened in self._open.items() if not opened.converting]
        for id_ in idle[:-_MOST_OPEN]:
            del self._open[id_]
        return opened

    def _context(self) -> Context:
        return Context(asking=self.asking, root=self.root)

    def _view(self, opened: _Open) -> Facts:
        order, lake = opened.conversation.order, opened.lake
        stem = Path(order.source).name.partition(".")[0] or "data"
        return {
            **view_conversation(opened.conversation, opened.context),
            "digest": json_digest(opened.conversation.document),
            "source": self._name(order.source),
            "out": self._name(order.out) if order.out else None,
            "suggested_out": f"results/{stem}",
            "tokenizer": self._name(order.tokenizer) if order.tokenizer else None,
            "done": self._name(opened.conversation.done) if opened.conversation.done else None,
            "converting": opened.converting,
            "lake": {"path": self._name(lake), "name": opened.name} if lake else None,
        }

    def _place(self, name: str) -> str:
        return place_below(name, self.root)

    def _name(self, place: str | Path) -> str:
        """A path below the root as the page names it."""
        return name_below(place, self.root)


def _check_seen(opened: _Open, seen: str) -> None:
    if json_digest(opened.conversation.document) != seen:
        problem = "the mapping is not the one that this page shows"
        raise ConversionError(opened.conversation.id, problem, "reload the page, and look again")


def _find_waiting(order: LakeOrder, name: str) -> tuple[SetFacts, DataSet]:
    waiting = {facts.name: facts for facts in review_queue.waiting_sets(order)}
    sets = review_queue.find_data_sets(order)
    if name not in waiting:
        raise ConversionError(name, "does not wait in this lake")
    if name not in sets:
        raise SourceError(name, "its files were removed or belong to another data set now")
    return waiting[name], sets[name]


def _waiting_facts(facts: SetFacts) -> Facts:
    sure = None if facts.confidence is None else confidence_text(facts.confidence)
    return {**{name: getattr(facts, name) for name in _WAITING}, "confidence": sure}


def _progress_facts(done: Progress) -> Facts:
    text = f"{done.stage}: {done.rows:,} rows, {done.records:,} records"
    return {"rows": done.rows, "records": done.records, "text": text}
