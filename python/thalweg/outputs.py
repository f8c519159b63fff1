"""What comes back for a request. Names are those of vLLM where it has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

from . import errors


@dataclass(frozen=True)
class Logprob:
    """Of one token at one position, in the model's own distribution."""

    logprob: float
    rank: Optional[int] = None  # 1: the most probable
    decoded_token: Optional[str] = None


# Token id to its Logprob; the token that is there comes first.
LogprobsOnePosition = Dict[int, Logprob]


@dataclass
class CompletionOutput:
    """One sequence."""

    index: int
    text: str
    token_ids: List[int]
    cumulative_logprob: Optional[float] = None
    logprobs: Optional[List[LogprobsOnePosition]] = None
    finish_reason: Optional[str] = None  # "stop", "length", "cancelled", "error"
    stop_reason: Union[int, str, None] = None  # the stop token or string, with "stop"
    reasoning_tokens: int = 0

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass(frozen=True)
class RequestMetrics:
    """Seconds since the engine started."""

    submitted_at: float
    admitted_at: float
    first_token_at: float
    last_token_at: float


@dataclass
class RequestOutput:
    """What there is of a request so far. `outputs` of a failed request raises its error."""

    request_id: str
    prompt: Optional[str]
    prompt_token_ids: List[int]
    prompt_logprobs: Optional[List[Optional[LogprobsOnePosition]]]
    finished: bool
    metrics: RequestMetrics
    num_cached_tokens: int
    error: Optional[errors.Error] = None
    partial_outputs: List[CompletionOutput] = field(default_factory=list)

    @property
    def outputs(self) -> List[CompletionOutput]:
        """One for each of n. An error of the request is raised here; what there was before it is in
        partial_outputs."""
        if self.error is not None:
            raise self.error
        return self.partial_outputs


def _position(entries: Any) -> LogprobsOnePosition:
    return {token: Logprob(logprob, rank, text) for token, logprob, rank, text in entries}


def _completion(values: Dict[str, Any]) -> CompletionOutput:
    logprobs = values.pop("logprobs")
    positions = None if logprobs is None else [_position(entries) for entries in logprobs]
    return CompletionOutput(logprobs=positions, **values)


def from_core(values: Dict[str, Any]) -> RequestOutput:
    """A RequestOutput of what the compiled module hands out."""
    prompt_logprobs = values.pop("prompt_logprobs")
    if prompt_logprobs is not None:
        prompt_logprobs = [None if e is None else _position(e) for e in prompt_logprobs]
    error = values.pop("error")
    return RequestOutput(
        prompt_logprobs=prompt_logprobs,
        partial_outputs=[_completion(one) for one in values.pop("outputs")],
        error=None if error is None else errors.make(*error),
        metrics=RequestMetrics(*values.pop("metrics")),
        **values,
    )
