"""The module answers as the engine does: batches, chats, streams; repeatably, with typed errors for the
request that has one, and without disturbing the others."""

import array
import asyncio
import json
import os
import signal
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import thalweg
from thalweg import SamplingParams

GREEDY = dict(temperature=0, max_tokens=24)
QUESTION = [{"role": "user", "content": "What does courage mean?"}]
ANSWER = "a quality of spirit that enables you to face danger or pain without showing fear"


class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = thalweg.LLM(max_sequences=16)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def one(self, prompt="The opposite of", **params):
        return self.llm.generate(prompt, SamplingParams(**{**GREEDY, **params}))[0]


class Generate(Shared):
    def test_chat_answers(self):
        output = self.llm.chat(QUESTION, SamplingParams(temperature=0, max_tokens=64))[0]
        self.assertIn(ANSWER, output.outputs[0].text)
        self.assertEqual(output.outputs[0].finish_reason, "stop")
        self.assertTrue(output.finished)
        several = self.llm.chat([QUESTION, QUESTION], SamplingParams(temperature=0, max_tokens=64))
        self.assertEqual([o.outputs[0].text for o in several], [output.outputs[0].text] * 2)

    def test_every_form_of_a_prompt_is_the_same_prompt(self):
        text = self.one()
        ids = self.llm.encode("The opposite of")
        self.assertEqual(text.prompt_token_ids, ids)
        self.assertEqual(text.prompt, "The opposite of")
        forms = [ids, {"prompt_token_ids": ids}, {"prompt": "The opposite of"}, array.array("i", ids)]
        outputs = self.llm.generate(forms, SamplingParams(**GREEDY))
        outputs += self.llm.generate(ids, SamplingParams(**GREEDY))
        for output in outputs:
            self.assertEqual(output.outputs[0].token_ids, text.outputs[0].token_ids)
        self.assertIsNone(outputs[0].prompt)

    def test_batches_answer_like_single_requests(self):
        prompts = [f"The number {i} is" for i in range(20)]
        params = [SamplingParams(seed=i, max_tokens=8) for i in range(20)]
        together = self.llm.generate(prompts, params)
        for i in (0, 7, 19):
            alone = self.llm.generate(prompts[i], params[i])[0]
            self.assertEqual(alone.outputs[0].token_ids, together[i].outputs[0].token_ids)

    def test_n_sequences_use_the_seeds_that_follow(self):
        several = self.one(temperature=1, n=3, seed=5).outputs
        self.assertEqual([o.index for o in several], [0, 1, 2])
        for output in several:
            alone = self.one(temperature=1, seq_seed=5 + output.index).outputs[0]
            self.assertEqual(alone.token_ids, output.token_ids)

    def test_logprobs_are_dictionaries_with_the_chosen_token_first(self):
        output = self.one(logprobs=3, prompt_logprobs=1, max_tokens=4)
        sequence = output.outputs[0]
        self.assertEqual(len(sequence.logprobs), len(sequence.token_ids))
        for token, position in zip(sequence.token_ids, sequence.logprobs):
            self.assertEqual(next(iter(position)), token)
            self.assertEqual(position[token].rank, 1)
            self.assertEqual(len(position), 3)
        total = sum(p[t].logprob for t, p in zip(sequence.token_ids, sequence.logprobs))
        self.assertAlmostEqual(sequence.cumulative_logprob, total, places=4)
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        self.assertIsNone(output.prompt_logprobs[0])
        self.assertIn(output.prompt_token_ids[1], output.prompt_logprobs[1])

    def test_stop_strings_and_tokens(self):
        text = self.one().outputs[0].text
        stop = text[5:8]
        stopped = self.one(stop=stop).outputs[0]
        self.assertEqual(stopped.text, text[: text.index(stop)])
        self.assertEqual((stopped.finish_reason, stopped.stop_reason), ("stop", stop))
        kept = self.one(stop=[stop], include_stop_str_in_output=True).outputs[0]
        self.assertEqual(kept.text, text[: text.index(stop)] + stop)
        third = self.one().outputs[0].token_ids[2]
        by_token = self.one(stop_token_ids=[third]).outputs[0]
        self.assertEqual(by_token.stop_reason, third)

    def test_bad_words_never_appear(self):
        for word in self.one().outputs[0].text.split()[:4]:
            self.assertNotIn(f" {word} ", self.one(bad_words=[word]).outputs[0].text + " ")

    def test_without_parameters_the_checkpoint_decides(self):
        params = self.llm.get_default_sampling_params()
        self.assertEqual((params.temperature, params.top_p, params.max_tokens), (0.6, 0.95, 16))
        self.assertTrue(self.llm.generate("The opposite of")[0].outputs[0].text)

    def test_metrics_count(self):
        before = self.llm.metrics()
        self.one()
        after = self.llm.metrics()
        self.assertEqual(after["requests"], before["requests"] + 1)
        self.assertGreaterEqual(after["output_tokens"], before["output_tokens"] + 24)

    def test_encode_and_decode(self):
        ids = self.llm.encode("Hello there", add_special_tokens=False)
        self.assertEqual(self.llm.decode(ids), "Hello there")
        chat = self.llm.encode_chat(QUESTION)
        self.assertIn("courage", self.llm.decode(chat))
        spelled = self.llm.decode(chat, skip_special_tokens=False)
        self.assertEqual(self.llm.encode(spelled), chat)
        self.assertNotEqual(self.llm.encode(spelled, parse_special_tokens=False), chat)


class Errors(Shared):
    def test_a_bad_request_does_not_disturb_the_others(self):
        params = [SamplingParams(**GREEDY), SamplingParams(temperature=-1), SamplingParams(**GREEDY)]
        good, bad, also = self.llm.generate(["The opposite of"] * 3, params)
        self.assertEqual(good.outputs[0].token_ids, also.outputs[0].token_ids)
        self.assertIsInstance(bad.error, thalweg.InvalidArgumentError)
        self.assertIn("temperature", str(bad.error))
        with self.assertRaises(thalweg.InvalidArgumentError):
            bad.outputs

    def test_the_error_of_one_prompt_is_raised(self):
        cases = [
            (dict(prompt=""), "empty"),
            (dict(prompt=[]), "prompt"),
            (dict(prompt=[1 << 40]), "1099511627776"),
            (dict(prompt=[10_000_000]), "10000000"),
            (dict(prompt=["x", 3]), "prompt"),
            (dict(top_p=0.0), "top_p"),
            (dict(min_tokens=5, max_tokens=2), "min_tokens"),
            (dict(allowed_token_ids=[]), "allowed_token_ids"),
            (dict(stop=[""]), "stop"),
            (dict(bad_words=[" "]), "bad_words"),
            (dict(logprobs=21), "logprobs"),
            (dict(n=1000), "n is 1000"),
            (dict(max_tokens=10**9), "context"),
        ]
        for values, part in cases:
            with self.subTest(values):
                with self.assertRaises(thalweg.Error) as caught:
                    self.one(**values)
                self.assertIn(part, str(caught.exception))

    def test_parameters_are_checked_when_they_are_made(self):
        for values, part in [
            (dict(temperature=float("nan")), "temperature is nan"),
            (dict(temperature="hot"), "temperature"),
            (dict(n=0), "n is 0"),
            (dict(logit_bias={"x": 1}), "x"),
            (dict(seed=1, seq_seed=2), "seed and seq_seed"),
        ]:
            with self.subTest(values):
                with self.assertRaises(ValueError) as caught:
                    SamplingParams(**values)
                self.assertIn(part, str(caught.exception))
        with self.assertRaises(TypeError):
            SamplingParams(temprature=1)

    def test_structured_output(self):
        for asked in (
            dict(so_args={"type": "regex", "content": "[a-c]{3}"}),
            dict(so_args='{"type": "regex", "content": "[a-c]{3}"}'),
            dict(structured_outputs={"regex": "[a-c]{3}"}),
        ):
            with self.subTest(asked):
                params = SamplingParams(temperature=1, seed=1, max_tokens=20, **asked)
                self.assertRegex(self.llm.generate("x", params)[0].outputs[0].text, "^[a-c]{3}$")
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}},
                  "required": ["n"], "additionalProperties": False}
        asked = {"type": "json_schema", "content": schema, "whitespace": "compact"}
        params = SamplingParams(seed=2, max_tokens=60, so_args=asked)
        self.assertIn(json.loads(self.llm.generate("x", params)[0].outputs[0].text)["n"], range(10))
        with self.assertRaises(thalweg.Error) as caught:
            self.llm.generate("x", SamplingParams(so_args={"type": "regex", "content": "("}))
        self.assertIn("regular expression", str(caught.exception))

    def test_calls_that_make_no_sense(self):
        with self.assertRaises(thalweg.InvalidArgumentError):
            self.llm.generate([])
        with self.assertRaises(thalweg.InvalidArgumentError):
            self.llm.generate(["a", "b", "c"], [SamplingParams()] * 2)
        with self.assertRaises(thalweg.InvalidArgumentError):
            self.llm.generate({"promt": "a"})
        with self.assertRaisesRegex(thalweg.InvalidArgumentError, r"tools\[0\].*name"):
            self.llm.chat(QUESTION, tools=[{}])
        with self.assertRaisesRegex(thalweg.InvalidArgumentError, "plain JSON"):
            self.llm.chat([{"role": "user", "content": object()}])
        with self.assertRaisesRegex(thalweg.InvalidArgumentError, r"messages\[1\]"):
            self.llm.encode_chat(QUESTION + [{"role": "tool", "tool_call_id": "c", "content": ""}])

    def test_conversations_with_tools(self):
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        messages = QUESTION + [
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "2"}]},
        ]
        tools = [{"type": "function", "function": {"name": "f", "description": "d"}}]
        ids = self.llm.encode_chat(messages, thinking=True, effort="max", tools=tools)
        prompt = self.llm.decode(ids, skip_special_tokens=False)
        self.assertIn("Reasoning Effort: 100 ", prompt)
        self.assertIn('{"name": "f", "description": "d", "parameters": ', prompt)
        self.assertIn('<think>Hm.</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">', prompt)
        self.assertTrue(prompt.endswith("<tool_result>2</tool_result><｜Assistant｜><think>"))
        begun = QUESTION + [{"role": "assistant", "content": "Courage is", "prefix": True}]
        prompt = self.llm.decode(self.llm.encode_chat(begun), skip_special_tokens=False)
        self.assertTrue(prompt.endswith("<｜Assistant｜></think>Courage is"))

    def test_options_come_from_the_table(self):
        with self.assertRaises(thalweg.InvalidArgumentError) as caught:
            thalweg.LLM(max_row=64)
        self.assertIn("max_row", str(caught.exception))
        self.assertIn("max-rows", str(caught.exception))
        with self.assertRaises(thalweg.InvalidArgumentError) as caught:
            thalweg.LLM(max_rows=-1)
        self.assertIn("max-rows is -1", str(caught.exception))
        with self.assertRaises(thalweg.Error) as caught:
            thalweg.LLM("/nonexistent/model")
        self.assertIn("/nonexistent/model", str(caught.exception))
        names = [row["name"] for row in thalweg.LLM.options()]
        self.assertIn("max-rows", names)

    def test_a_closed_model_says_so(self):
        llm = thalweg.LLM(max_sequences=2)
        llm.close()
        llm.close()
        with self.assertRaises(thalweg.FailedPreconditionError):
            llm.generate("x")


class Processors(Shared):
    def test_in_place_and_returned_logits(self):
        want = self.llm.encode(" x", add_special_tokens=False)[0]

        def in_place(tokens, logits):
            for i in range(len(logits)):
                logits[i] = 0.0
            logits[want] = 10.0

        def returned(tokens, logits):
            out = array.array("f", bytes(4 * len(logits)))
            out[want] = 10.0
            return out

        for processor in (in_place, returned, lambda t, l: list(returned(t, l))):
            output = self.one(logits_processors=[processor], max_tokens=3)
            self.assertEqual(output.outputs[0].token_ids, [want] * 3)

    def test_it_sees_prompt_and_output(self):
        seen = []
        output = self.one(logits_processors=[lambda t, l: seen.append(t.tolist())], max_tokens=3)
        prompt = output.prompt_token_ids
        tokens = output.outputs[0].token_ids
        self.assertEqual(seen, [prompt, prompt + tokens[:1], prompt + tokens[:2]])
        self.assertEqual(tokens, self.one(max_tokens=3).outputs[0].token_ids)

    def test_its_error_ends_its_sequence_alone(self):
        def broken(tokens, logits):
            raise KeyError("missing")

        params = [SamplingParams(**GREEDY, logits_processors=[broken]), SamplingParams(**GREEDY)]
        bad, good = self.llm.generate(["The opposite of"] * 2, params)
        self.assertIn("missing", str(bad.error))
        self.assertEqual(len(good.outputs[0].token_ids), 24)
        with self.assertRaises(thalweg.Error):
            self.one(logits_processors=[lambda t, l: [1.0, 2.0]])

    def test_views_end_with_the_call(self):
        kept = []
        self.one(logits_processors=[lambda t, l: kept.append(l)], max_tokens=1)
        with self.assertRaises(ValueError):
            kept[0][0]


class Streams(Shared):
    def collect(self, **params):
        async def run():
            stream = self.llm.stream("The opposite of", SamplingParams(**{**GREEDY, **params}))
            return [output async for output in stream]

        return asyncio.run(run())

    def test_kinds_of_output_agree(self):
        whole = self.one().outputs[0]
        cumulative = self.collect()
        self.assertEqual(cumulative[-1].outputs[0].text, whole.text)
        self.assertEqual(cumulative[-1].outputs[0].token_ids, whole.token_ids)
        self.assertGreater(len(cumulative), 2)
        delta = self.collect(output_kind="delta")
        self.assertEqual("".join(o.outputs[0].text for o in delta), whole.text)
        self.assertEqual([t for o in delta for t in o.outputs[0].token_ids], whole.token_ids)
        final = self.collect(output_kind=thalweg.RequestOutputKind.FINAL_ONLY)
        self.assertEqual(len(final), 1)
        self.assertEqual(final[0].outputs[0].text, whole.text)

    def test_many_at_once(self):
        async def text(i):
            parts = []
            params = SamplingParams(seed=i, max_tokens=12, output_kind="delta")
            async for output in self.llm.stream(f"The number {i} is", params):
                parts.append(output.outputs[0].text)
            return "".join(parts)

        async def run():
            return await asyncio.gather(*(text(i) for i in range(12)))

        texts = asyncio.run(run())
        for i in (0, 11):
            alone = self.llm.generate(f"The number {i} is", SamplingParams(seed=i, max_tokens=12))
            self.assertEqual(texts[i], alone[0].outputs[0].text)

    def test_leaving_the_loop_cancels(self):
        before = self.llm.metrics()["cancelled"]

        async def run():
            stream = self.llm.stream("a", SamplingParams(max_tokens=4000, ignore_eos=True))
            async for _ in stream:
                break
            await stream.aclose()

        asyncio.run(run())
        deadline = time.monotonic() + 20
        while self.llm.metrics()["cancelled"] == before and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.llm.metrics()["cancelled"], before + 1)

    def test_abort_by_id(self):
        async def run():
            params = SamplingParams(max_tokens=4000, ignore_eos=True, output_kind="delta")
            reason = None
            async for output in self.llm.stream("a", params, request_id="mine"):
                self.assertEqual(output.request_id, "mine")
                self.llm.abort("mine")
                reason = output.outputs[0].finish_reason
            return reason

        self.assertEqual(asyncio.run(run()), "cancelled")

    def test_an_error_comes_from_the_stream(self):
        with self.assertRaises(thalweg.InvalidArgumentError):
            self.collect(temperature=-1)


class Interrupts(Shared):
    def test_ctrl_c_cancels_and_raises(self):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        params = SamplingParams(max_tokens=4000, ignore_eos=True)
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.llm.generate(["a"] * 64, params)
        timer.cancel()
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(len(self.one().outputs[0].token_ids), 24)  # the engine goes on

    def test_ctrl_c_ends_a_download(self):
        hub = socket.create_server(("127.0.0.1", 0))  # takes connections and never answers
        names = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}", "HF_HUB_OFFLINE": ""}
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, names, HF_HUB_CACHE=cache):
            timer.start()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                thalweg.LLM("no-such/model")
            self.assertLess(time.monotonic() - begin, 20)
        timer.cancel()
        hub.close()

    def test_other_threads_run_while_it_waits(self):
        turns = []
        done = threading.Event()

        def count():
            while not done.wait(0.005):
                turns.append(1)

        thread = threading.Thread(target=count)
        thread.start()
        self.llm.generate(["a"] * 8, SamplingParams(max_tokens=200, ignore_eos=True))
        done.set()
        thread.join()
        self.assertGreater(len(turns), 5)


if __name__ == "__main__":
    unittest.main()
