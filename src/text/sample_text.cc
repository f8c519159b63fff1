#include "text/sample_text.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

// Words are separated by one space here; the front of a list is drawn more often than its end.
constexpr std::string_view kEnglish =
    "the of and to in a is that it was for on are as with his they at be this from have or by one "
    "had not but what all were when we there can an your which their said if do will each about "
    "how up out them then she many some so these would other into has more her two like him see "
    "time could no make than first been its who now people my made over did down only way find "
    "use may water long little very after words called just where most know get through back much "
    "before go good new write our used me man too any day same right look think also around "
    "another came come work three word must because does part even place well such here take why "
    "things help put years different away again off went old number great tell men say small every "
    "found still between name should home big give air line set own under read last never us left "
    "end along while might next sound below saw something thought both few those always looked "
    "show large often together asked house world going want school important until form food keep "
    "children feet land side without boy once animals life enough took sometimes four head above "
    "kind began almost live page got earth need far hand high year mother light parts country "
    "father let night following picture being study second eyes soon times story boys since white "
    "days ever paper hard near sentence better best across during today others however sure means "
    "knew try told young miles sun ways thing whole hear example heard several change answer room "
    "sea against top turned learn point city play toward five using himself usually measurement "
    "throughput probability tokenizer distribution architecture approximately counterintuitively "
    "Kaczynski Reykjavik hydroxychloroquine O'Brien it's don't we'll they've internationalization";
constexpr std::string_view kCode =
    "const auto& int return if (x) { } for (size_t i = 0; ++i) std::vector<float> value() == != -> "
    "this->size_ nullptr; // the /* */ #include <string> template class public: static_cast<int>( "
    "self.weights def forward(self, import numpy as np lambda x: None True await async function() "
    "=> console.log( \"error: %d\\n\" & << >> 0x7fff 1024 3.14159f [i][j] *p += 2; MAX_LEN_BYTES "
    "snake_case_name camelCaseName SELECT * FROM users WHERE id=? <div class=\"row\"> </div> "
    "error_code::kInvalid assert(n>0); while(true) try: except ValueError as e: @property";
constexpr std::string_view kChinese =
    "我们 的 是 在 了 一个 模型 语言 可以 通过 使用 数据 训练 和 不 有 这 他 中国 人民 大学 研究 "
    "技术 发展 问题 方法 系统 进行 需要 已经 但是 因为 所以 如果 北京 上海 经济 社会 文化 历史 "
    "世界 国家 政府 企业 市场 学习 注意力 机制 参数 权重 推理 引擎 速度 内存 计算 缓存 专家 "
    "混合 深度 求索 非常 感谢 你好 今天 天气 很好 明天 会 下雨 吗 龘 饕餮 魑魅魍魉 氤氲";
constexpr std::string_view kJapanese =
    "これ は です ます の を に が と で 東京 日本 カタカナ テスト モデル 言語 学習 する こと "
    "できる から まで また しかし 私 彼女 新しい 美しい 食べる 行きました コンピュータ ー";
constexpr std::string_view kKorean =
    "안녕하세요 저는 학생 입니다 한국어 모델 그리고 그러나 우리는 오늘 날씨가 좋습니다 데이터를 "
    "사용하여 학습 합니다 서울 대학교 연구 결과 문제를 해결 하기 위해 새로운 방법을 제안한다 값";
constexpr std::string_view kArabic =
    "السلام عليكم في من على هذا هذه التي الذي كان إلى أن لا ما مع بعد قبل اللغة العربية نموذج "
    "البيانات جديد كبير صغير المدينة الكتاب يقرأ الطالب مُحَمَّدٌ العِلْمُ ١٢٣ ٤٥٦";
constexpr std::string_view kEmoji =
    "😀 😂 ❤️ 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇯🇵 🔥 ✨ 🎉 🤖 🧑🏿‍🚀 ☕ ♥ "
    "✅ "
    "🥲 "
    "🫠 "
    "1️⃣ "
    "ok lol !!";
constexpr std::string_view kRunUnits = "a = - 中 😀 \n \t 0 ! é ا ー # aB _";

class Words {
 public:
  explicit Words(std::string_view list) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(' '), list.size());
      words_.push_back(list.substr(0, end));
      list.remove_prefix(std::min(end + 1, list.size()));
    }
  }

  // Word of a random number: the square favours the front, roughly as language does.
  std::string_view Pick(double unit) const {
    return words_[static_cast<size_t>(unit * unit * static_cast<double>(words_.size()))];
  }

 private:
  std::vector<std::string_view> words_;
};

class Writer {
 public:
  Writer(size_t bytes, uint64_t seed) : bytes_(bytes), key_(base::PhiloxKeyOf(seed)) {}

  // Words with `space` between, ended by `stop` now and then; some numbers.
  std::string Prose(std::string_view list, std::string_view space, std::string_view comma,
                    std::string_view stop) {
    const Words words(list);
    while (!Done()) {
      text_ += words.Pick(Unit());
      const double dice = Unit();
      if (dice < 0.05) text_ += std::string(space) + std::to_string(Below(100000));
      if (dice > 0.97) {
        text_ += "\n\n";
      } else if (dice > 0.90) {
        text_ += stop;
      } else {
        text_ += dice > 0.82 ? comma : space;
      }
    }
    return std::move(text_);
  }

  std::string Code() {
    const Words words(kCode);
    while (!Done()) {
      text_.append(Below(5) * 4, ' ');
      for (uint32_t n = 2 + Below(8); n > 0; --n) (text_ += words.Pick(Unit())) += ' ';
      text_ += Below(6) == 0 ? "\n\n" : "\n";
    }
    return std::move(text_);
  }

  std::string Runs() {
    const Words units(kRunUnits);
    while (!Done()) {
      const std::string_view unit = units.Pick(Unit());
      for (uint32_t n = 1 + Below(20000); n > 0; --n) text_ += unit.empty() ? " " : unit;
    }
    return std::move(text_);
  }

  // One piece for BPE: letters of words with nothing between.
  std::string NoSpace() {
    const Words words(kEnglish);
    while (!Done()) {
      const std::string_view word = words.Pick(Unit());
      if (word.find('\'') == std::string_view::npos) text_ += word;
    }
    return std::move(text_);
  }

 private:
  bool Done() const { return text_.size() >= bytes_; }
  uint32_t Word() { return base::Philox4x32({static_cast<uint32_t>(drawn_++), 0, 0, 0}, key_)[0]; }
  double Unit() { return base::OpenUnit(Word()); }
  uint32_t Below(uint32_t n) { return Word() % n; }

  size_t bytes_;
  base::PhiloxKey key_;
  uint64_t drawn_ = 0;
  std::string text_;
};

}  // namespace

std::string SampleText(size_t kind, size_t bytes, uint64_t seed) {
  TW_CHECK_LT(kind, kSampleKinds.size());
  Writer writer(bytes, seed);
  const std::string_view name = kSampleKinds[kind];
  if (name == "english") return writer.Prose(kEnglish, " ", ", ", ". ");
  if (name == "code") return writer.Code();
  if (name == "chinese") return writer.Prose(kChinese, "", "，", "。");
  if (name == "japanese") return writer.Prose(kJapanese, "", "、", "。");
  if (name == "korean") return writer.Prose(kKorean, " ", ", ", ". ");
  if (name == "arabic") return writer.Prose(kArabic, " ", "، ", ". ");
  if (name == "emoji") return writer.Prose(kEmoji, " ", "", "! ");
  if (name == "runs") return writer.Runs();
  return writer.NoSpace();
}

}  // namespace thalweg::text
