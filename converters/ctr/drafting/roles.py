"""Which columns of a table are the labels, the entity and the sample's id: by name and by value."""

import re
from collections.abc import Sequence
from typing import Final

from ingot.converters.ctr.drafting.profile import Profile
from ingot.converters.ctr.drafting.shapes import words_of

_CLICKS: Final = (
    ("click", "clicked", "is_click", "is_clicked", "isclick", "clk", "click_label", "y_ctr"),
    ("ctr_label", "label_ctr", "label_click", "has_click", "if_click", "点击", "是否点击"),
    ("label", "target", "y", "is_like", "like", "liked"),
)
_PLAIN_CLICKS = 2  # so many of these groups say nothing but the click
_CONVERSIONS: Final = (
    ("conversion", "converted", "is_conversion", "conv", "cv", "y_cvr", "cvr_label", "label_cvr"),
    ("purchase", "purchased", "is_purchase", "buy", "bought", "is_buy", "购买", "成交"),
    ("order", "ordered", "is_order", "pay", "paid", "is_pay", "install", "installed"),
    ("is_install", "is_installed", "sale", "is_trade", "deal", "label_buy", "label_purchase"),
)
_ENTITIES: Final = (
    ("user_id", "userid", "uid", "user", "user_idx", "log_user_id", "user_hash", "用户", "用户id"),
    ("member_id", "memberid", "customer_id", "customerid", "customer", "buyer_id", "account_id"),
    ("visitor_id", "visitorid", "full_visitor_id", "person_id", "profile_id", "pin", "openid"),
    ("device_id", "deviceid", "device", "imei", "idfa", "gaid", "cookie_id", "cookie", "client_id"),
    ("session_id", "sessionid", "session", "device_ip", "ip"),
)
_PLAIN_ENTITIES = 3
_SAMPLES: Final = (
    ("sample_id", "sampleid", "impression_id", "impressionid", "imp_id", "request_id", "requestid"),
    ("log_id", "logid", "row_id", "rowid", "event_id", "eventid", "record_id", "bid_id"),
    ("id", "sid", "index", "idx", "unnamed_0"),
)
_OUTCOME = re.compile(
    r"(?:^|_)(?:click|clicked|clk|like|liked|follow|followed|share|shared|comment|favou?rite|fav|"
    r"cart|pay|paid|order|ordered|install|installed|purchase|purchased|buy|bought|convert|"
    r"converted|conversion|finish|finished|forward|hate|exposed?|label|skip|skipped)(?:_|$)"
)


def names_click(name: str) -> bool:
    """Whether a name says that the column is the click, and nothing else."""
    return any(words_of(name) in group for group in _CLICKS[:_PLAIN_CLICKS])


def names_user(name: str) -> bool:
    """Whether a name says that the column is a person, or what stands for one."""
    return any(words_of(name) in group for group in _ENTITIES[:_PLAIN_ENTITIES])


def is_outcome(profile: Profile) -> bool:
    """Whether a 0/1 column seems to tell what happened after the row was shown."""
    return profile.is_label and bool(_OUTCOME.search(words_of(profile.name)))


def find_click(profiles: Sequence[Profile]) -> tuple[Profile | None, str]:
    """The column of the click, and what is doubtful about it."""
    found, group = _first(_CLICKS, [one for one in profiles if one.is_label])
    if found is None or group < _PLAIN_CLICKS:
        return found, ""
    return found, f"{found.name} is taken as the click"


def find_conversion(profiles: Sequence[Profile], click: Profile) -> tuple[Profile | None, str]:
    """The column of the conversion, and what is doubtful about it."""
    others = [one for one in profiles if one.only_labels and one is not click]
    found, _ = _first(_CONVERSIONS, others)
    return found, ""


def find_entity(profiles: Sequence[Profile]) -> tuple[Profile | None, str]:
    """The column that splits rows, and what is doubtful about it."""
    able = [one for one in profiles if not one.shape.many and one.tokens.distinct >= 2]
    able = [one for one in able if not one.shape.unread and not one.shape.fraction]
    found, group = _first(_ENTITIES, able)
    if found is None:
        found = next((one for one in able if re.search(r"(?:^|_)(?:user|uid)", _plain(one))), None)
        group = 0 if found else group
    if found is None:
        return None, ""
    if found.tokens.distinct >= 0.95 * found.rows:
        return found, f"{found.name} has a value of its own in nearly every row: rows are split"
    if group >= _PLAIN_ENTITIES:
        return found, f"{found.name} is taken as the entity, for want of a user"
    return found, ""


def find_sample(profiles: Sequence[Profile], entity: Profile) -> Profile | None:
    """The column of the sample's id: named so, never missing, never twice."""
    unique = [
        one
        for one in profiles
        if one is not entity
        and not one.missing
        and not one.shape.many
        and not one.shape.fraction
        and one.tokens.once == one.tokens.distinct >= 2
    ]
    found, _ = _first(_SAMPLES, unique)
    return found


def _plain(profile: Profile) -> str:
    return words_of(profile.name)


def _first(
    groups: Sequence[Sequence[str]], profiles: Sequence[Profile]
) -> tuple[Profile | None, int]:
    """The profile whose name stands first in the groups, and the number of its group."""
    named = {words_of(one.name): one for one in reversed(profiles)}
    for number, group in enumerate(groups):
        for name in group:
            if name in named:
                return named[name], number
    return None, len(groups)
