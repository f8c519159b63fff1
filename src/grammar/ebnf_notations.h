// The two notations that grammars are written in.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/ebnf_text.h"
#include "grammar/ebnf_tree.h"
#include "grammar/limits.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// name ::= ..., of GBNF and of the W3C. Literals and classes become expressions of the arena.
Result<EbnfTree> ParseGbnf(EbnfText text, const Limits& limits, RegexArena* arena);
// name: ..., of Lark.
Result<EbnfTree> ParseLark(EbnfText text, const Limits& limits, RegexArena* arena);

// Shared by both: one node for what is alone, a sequence or choice otherwise.
EbnfNode EbnfGroup(EbnfNode::Kind kind, std::vector<EbnfNode> children);
EbnfNode EbnfLanguage(RegexId regex, size_t offset);
EbnfNode EbnfRepeat(EbnfNode of, int64_t min, int64_t max);
// `*`, `+` or `?` behind a node: it becomes a repetition. false: none of them is there.
bool TakeRepetition(EbnfText* text, EbnfNode* node);
// Fails when the arena has outgrown its limits.
Status CheckEbnfSize(const EbnfText& text, const Limits& limits, const RegexArena& arena);

}  // namespace thalweg::grammar
