"""A loaded model that answers."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import weakref
from typing import Any, AsyncIterator, Dict, List, Optional, Sequence, Union

from . import _core, errors
from .outputs import RequestOutput, from_core
from .progress import ProgressBar
from .sampling_params import SamplingParams

Message = Dict[str, Any]
# Text, token ids, {"prompt": text}, {"prompt_token_ids": ids} or {"messages": [...]}.
Prompt = Union[str, Sequence[int], Dict[str, Any]]
Params = Union[None, SamplingParams, Sequence[SamplingParams]]

_open: "weakref.WeakSet[LLM]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Threads of an engine must not meet an interpreter that is going down.
    for llm in list(_open):
        llm.close()


class LLM:
    """A loaded model. Every method may be called from any thread.

    model: a folder or a Hugging Face name; None: DEEPINFER_HF_MODEL_DIR, else the small checkpoint
    that comes with the package. options: those of LLM.options(), with underscores or dashes; what is
    left out comes from the environment, then from option_file, then from the defaults.
    """

    def __init__(
        self,
        model: Union[None, str, "os.PathLike[str]"] = None,
        *,
        option_file: Union[None, str, "os.PathLike[str]"] = None,
        **options: Any,
    ) -> None:
        self._core = _core.Core(
            model="" if model is None else os.fspath(model),
            options={name: _text(v) for name, v in options.items() if v is not None},
            option_file="" if option_file is None else os.fspath(option_file),
        )
        _open.add(self)

    @staticmethod
    def options() -> List[Dict[str, Any]]:
        """Every option: name, type, default, environment, help, choices, least, most."""
        return _core.options()

    def generate(
        self,
        prompts: Union[Prompt, Sequence[Prompt]],
        sampling_params: Params = None,
        use_tqdm: bool = True,
        *,
        priority: int = 0,
        cache_salt: str = "",
        prefix_reuse: bool = True,
        add_special_tokens: bool = True,
        parse_special_tokens: bool = True,
    ) -> List[RequestOutput]:
        """Answers one prompt or many, in their order; sampling_params: one for all, or one each; None:
        those of get_default_sampling_params().

        A request that is refused or fails does not disturb the others: its output has `error`, and
        reading its `outputs` raises it. The error of a single prompt is raised at once. Ctrl-C cancels
        what is under way. use_tqdm: show progress, when stderr is a terminal.
        """
        request = _core.RequestOptions()
        request.priority = priority
        request.cache_salt = cache_salt
        request.prefix_reuse = prefix_reuse
        request.add_special_tokens = add_special_tokens
        request.parse_special_tokens = parse_special_tokens
        return self._run(_prompt_list(prompts), sampling_params, use_tqdm, request)

    def chat(
        self,
        messages: Union[List[Message], List[List[Message]]],
        sampling_params: Params = None,
        use_tqdm: bool = True,
        *,
        thinking: bool = False,
        effort: Union[int, str] = 75,
        add_generation_prompt: bool = True,
        tools: Optional[Sequence[Dict[str, Any]]] = None,
        drop_thinking: bool = True,
    ) -> List[RequestOutput]:
        """Answers one conversation or a list of them. Messages and tools are those of OpenAI's chat
        completions, with "reasoning" (or "reasoning_content") for what an assistant thought and
        "prefix": True for a last message that is to be continued. effort: low, high, max or 1..100,
        with thinking. drop_thinking: leave out reasoning before the last turn of the user, where
        there are no tools. Calls of tools come as the text that the model writes."""
        several = bool(messages) and not isinstance(messages[0], dict)
        prompts = [
            _conversation(
                one,
                thinking=thinking,
                effort=effort,
                add_generation_prompt=add_generation_prompt,
                tools=tools,
                drop_thinking=drop_thinking,
            )
            for one in (messages if several else [messages])  # type: ignore[list-item]
        ]
        return self._run(prompts, sampling_params, use_tqdm, _core.RequestOptions())

    async def stream(
        self,
        prompt: Prompt,
        sampling_params: Optional[SamplingParams] = None,
        request_id: Optional[str] = None,
        *,
        priority: int = 0,
        cache_salt: str = "",
        prefix_reuse: bool = True,
    ) -> AsyncIterator[RequestOutput]:
        """The outputs of one request as they come; SamplingParams.output_kind says how much each
        holds. Leaving the loop, or cancelling the task, cancels the request."""
        loop = asyncio.get_running_loop()
        arrived: "asyncio.Queue[Dict[str, Any]]" = asyncio.Queue()

        def push(values: Dict[str, Any]) -> None:  # on a thread of the engine
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(arrived.put_nowait, values)

        request = _core.RequestOptions()
        request.request_id = request_id or ""
        request.priority = priority
        request.cache_salt = cache_salt
        request.prefix_reuse = prefix_reuse
        params = (sampling_params or self.get_default_sampling_params())._to_core()
        own_id = self._core.submit(_prompt(prompt), params, request, push)
        finished = False
        try:
            while not finished:
                output = from_core(await arrived.get())
                finished = output.finished
                yield output
        finally:
            if not finished:
                self.abort(own_id)

    def abort(self, request_id: str) -> None:
        """Ends a request with finish_reason "cancelled"; unknown ids are ignored."""
        self._core.cancel(request_id)

    def get_default_sampling_params(self) -> SamplingParams:
        """What the checkpoint recommends; used where no parameters are given."""
        return SamplingParams(**self._core.recommended())

    def metrics(self) -> Dict[str, Any]:
        """Counters and times since the start."""
        return json.loads(self._core.metrics_json())

    @property
    def context_tokens(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._core.context_tokens()

    def encode(
        self, text: str, add_special_tokens: bool = True, parse_special_tokens: bool = True
    ) -> List[int]:
        """Token ids of a text, as generate() reads a prompt."""
        request = _core.RequestOptions()
        request.add_special_tokens = add_special_tokens
        request.parse_special_tokens = parse_special_tokens
        return self._core.encode(text, request)

    def encode_chat(
        self,
        messages: List[Message],
        thinking: bool = False,
        effort: Union[int, str] = 75,
        add_generation_prompt: bool = True,
        tools: Optional[Sequence[Dict[str, Any]]] = None,
        drop_thinking: bool = True,
    ) -> List[int]:
        """Token ids of a conversation, as chat() reads it."""
        return self._core.encode_chat(
            _conversation(
                messages,
                thinking=thinking,
                effort=effort,
                add_generation_prompt=add_generation_prompt,
                tools=tools,
                drop_thinking=drop_thinking,
            )
        )

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._core.decode(token_ids, skip_special_tokens)

    def close(self) -> None:
        """Cancels what is under way and gives the model's memory back."""
        self._core.close()
        _open.discard(self)

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _run(
        self, prompts: List[Any], sampling_params: Params, bar: bool, request: _core.RequestOptions
    ) -> List[RequestOutput]:
        progress = ProgressBar(bar)
        try:
            params = self.get_default_sampling_params() if sampling_params is None else sampling_params
            values = self._core.generate(prompts, _param_list(params), request, progress)
        finally:
            progress.close()
        outputs = [from_core(one) for one in values]
        if len(outputs) == 1 and outputs[0].error is not None:
            raise outputs[0].error
        return outputs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _param_list(params: Union[SamplingParams, Sequence[SamplingParams]]) -> List[_core.Params]:
    several = [params] if isinstance(params, SamplingParams) else list(params)
    return [one._to_core() for one in several]


def _is_token_list(prompts: Any) -> bool:
    return len(prompts) > 0 and hasattr(prompts[0], "__index__")


def _prompt_list(prompts: Any) -> List[Any]:
    if hasattr(prompts, "tolist"):
        prompts = prompts.tolist()
    if not hasattr(prompts, "__getitem__"):
        prompts = list(prompts)  # an iterator
    if isinstance(prompts, (str, dict)) or _is_token_list(prompts):
        return [_prompt(prompts)]
    return [_prompt(one) for one in prompts]


def _prompt(prompt: Any) -> Any:
    """A str, a sequence of token ids or a Conversation."""
    if hasattr(prompt, "tolist"):
        return prompt.tolist()
    if not isinstance(prompt, dict):
        return prompt
    known = ("prompt_token_ids", "messages", "prompt")
    given = [name for name in known if prompt.get(name) is not None]
    if not given or set(prompt) - set(known):
        raise errors.InvalidArgumentError(
            f"a prompt dictionary has one of {', '.join(known)}, not {', '.join(map(str, prompt))}"
        )
    if given[0] == "messages":
        return _conversation(prompt["messages"])
    return prompt[given[0]]


def _conversation(messages: Sequence[Message], **fields: Any) -> _core.Conversation:
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        text = json.dumps({"messages": list(messages), **given}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"messages and tools must be plain JSON: {error}") from None
    return _core.Conversation(text)
