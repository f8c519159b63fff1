#include "text/pieces.h"

namespace thalweg::text {

void AppendText(std::vector<Piece>& pieces, std::string_view text) {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().is_special()) {
    pieces.push_back(Piece::Text(text));
  } else {
    std::get<std::string>(pieces.back().value).append(text);
  }
}

std::vector<int32_t> EncodePieces(const Tokenizer& tokenizer, std::span<const Piece> pieces) {
  std::vector<int32_t> ids;
  std::string run;
  const auto encode_run = [&] {
    tokenizer.EncodeTo(run, Specials::kAsText, ids);
    run.clear();
  };
  for (const Piece& piece : pieces) {
    if (!piece.is_special()) {
      run.append(piece.text());
      continue;
    }
    encode_run();
    ids.push_back(piece.id());
  }
  encode_run();
  return ids;
}

std::string SpellPieces(const Tokenizer& tokenizer, std::span<const Piece> pieces) {
  std::string spelled;
  for (const Piece& piece : pieces) {
    if (!piece.is_special()) {
      spelled += piece.text();
    } else if (tokenizer.IsAdded(piece.id())) {
      spelled += tokenizer.RawToken(piece.id());
    } else {
      spelled += tokenizer.TokenBytes(piece.id());
    }
  }
  return spelled;
}

}  // namespace thalweg::text
