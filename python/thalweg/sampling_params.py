"""How the tokens of a request are chosen."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import InitVar, dataclass, fields
from typing import Any, Callable, Dict, List, Optional, Union

from . import _core, errors

# (token ids so far, logits of the position) as memoryviews of int32 and float32. Changes the logits in
# place and returns None, or returns new ones. Both views end with the call. Must be a pure function.
LogitsProcessor = Callable[[memoryview, memoryview], Any]


class RequestOutputKind(str, enum.Enum):
    """What a stream hands out each time."""

    CUMULATIVE = "cumulative"
    DELTA = "delta"
    FINAL_ONLY = "final_only"


_NOT_SENT = ("logits_processors",)
_JSON = ("so_args", "structured_outputs")


@dataclass
class SamplingParams:
    """Names and defaults are those of vLLM where it has them; docs/sampling.md has the order in which
    they act. Values out of range are errors of the request that carries them."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Optional[Dict[int, float]] = None
    allowed_token_ids: Optional[List[int]] = None
    banned_token_ids: Optional[List[int]] = None
    bad_words: Optional[List[str]] = None
    min_tokens: int = 0
    max_tokens: Optional[int] = 16  # None: until the context is full
    stop: Union[None, str, List[str]] = None
    stop_token_ids: Optional[List[int]] = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    seed: Optional[int] = None
    skip_special_tokens: bool = True
    thinking_budget: Optional[int] = None
    logits_processors: Optional[List[LogitsProcessor]] = None
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    # What the text must be: {"type": "regex" | "json_schema" | "ebnf" | "json_object" | "structural",
    # "content": ...}; docs/structured.md.
    so_args: Union[None, str, Dict[str, Any]] = None
    # The same in vLLM's words: one of "json", "regex", "choice", "grammar", "json_object".
    structured_outputs: Optional[Dict[str, Any]] = None
    seq_seed: InitVar[Optional[int]] = None  # another name of seed

    def __post_init__(self, seq_seed: Optional[int]) -> None:
        if seq_seed is not None and self.seed is not None:
            raise errors.InvalidArgumentError(
                "seed and seq_seed are two names of one value: give one of them"
            )
        if seq_seed is not None:
            self.seed = seq_seed
        self._to_core()  # what is wrong is told here, and not first by generate()

    def _to_core(self) -> _core.Params:
        try:
            text = json.dumps(self._values())
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"sampling params: {error}") from None
        return _core.Params.from_json(text, self._processors())

    def _processors(self) -> List[LogitsProcessor]:
        processors = list(self.logits_processors or [])
        for one in processors:
            if not callable(one):
                raise errors.InvalidArgumentError(
                    f"logits_processors holds {one!r}, which cannot be called"
                )
        return processors

    def _values(self) -> Dict[str, Any]:
        values = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _NOT_SENT or value is None and one.name not in ("max_tokens",):
                continue
            values[one.name] = value if one.name in _JSON else _plain(one.name, value)
        return values


def _get_seq_seed(self: SamplingParams) -> Optional[int]:
    return self.seed


def _set_seq_seed(self: SamplingParams, value: Optional[int]) -> None:
    self.seed = value


# After the decorator has read the default of the field.
SamplingParams.seq_seed = property(_get_seq_seed, _set_seq_seed)  # type: ignore[assignment]


def _plain(name: str, value: Any) -> Any:
    """The value as JSON knows it; numbers of other libraries become Python's."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(int(key)): _plain(name, one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(name, one) for one in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "tolist"):
        return _plain(name, value.tolist())
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise errors.InvalidArgumentError(f"{name} is {value!r}, which is no plain value") from None
    if not math.isfinite(number):
        raise errors.InvalidArgumentError(f"{name} is {value!r}, but must be a finite number")
    return number
