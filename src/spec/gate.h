// When drafting itself stops and starts: for a load, where no number of drafts pays for making
// them, and for a sequence whose drafts are not accepted (spec/decoding.md 1.5). Functions of what
// earlier steps brought, counted in steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "spec/verification.h"

namespace thalweg::spec {

// What the drafts of a sequence have been worth: survival by slot, what was observed most recently
// counting most. Budgets are chosen from it where no confidences of an earlier step are at hand.
class SurvivalRecord {
 public:
  // Before anything is known each draft is taken to be accepted as often as published of this model
  // (spec/decoding.md 1.8: 70 % of first drafts, 10 % of seventh).
  static constexpr double kUsualAcceptance = 0.72;
  // least_share: what something new counts for at least, once much is known.
  static constexpr double kSequenceShare = 1.0 / 16, kTypicalShare = 1.0 / 256;
  explicit SurvivalRecord(size_t slots, double least_share = kSequenceShare);
  // Where a new sequence begins: with what is known of all, and ready to learn of its own.
  SurvivalRecord ForSequence() const;

  // A verified block. Slots behind those that were verified keep at most the survival of the last.
  void Observe(int64_t verified, int64_t accepted);
  // What confidences say of a block, verified or not: survival by slot.
  void Predict(std::span<const double> survival);
  // What is known may be of another time: it counts as little as kDoubted observations.
  static constexpr int64_t kDoubted = 4;
  void Doubt() { observations_ = std::min(observations_, kDoubted); }
  std::span<const double> survival() const { return survival_; }

 private:
  double NextShare();

  double least_share_;
  std::vector<double> survival_;
  int64_t observations_ = 0;
};

// What drafts have brought against what was foretold of them when their step was planned: whatever
// foretells (confidences, records, a table fitted on other text), this is what came of it. Above 1
// it is not believed far: records learn of good drafts by themselves.
class Trust {
 public:
  static constexpr double kMemory = 32;  // blocks; half of them count for two thirds
  static constexpr double kPrior = 2;    // drafts that came as foretold
  static constexpr double kMost = 1.25;

  // A step that verified drafts of so many blocks.
  void Observe(int64_t blocks, double foretold, double accepted);
  double factor() const;

 private:
  double foretold_ = 0, accepted_ = 0;
};

// What a gate looks at, once a step.
struct Outlook {
  Budget budget = {};  // the step, if every willing sequence had a block
  double hope = 1;     // its gain, if the text were easy
  // A try: for how many sequences it drafts, in how many steps, and what its drafts lose, in plain
  // steps, if the text is as it was.
  int64_t try_sequences = 1;
  int64_t try_steps = 1;
  double try_loss = 0;
};

// Whether blocks are drafted at all. It changes its mind when what the present state loses against
// the other adds up to kLoss steps: at once where the difference is large, slowly where it is
// small. Half of what drafts have gained at a load may be lost again first, kMostCredit steps at
// most, and more where few sequences speak: text has stretches that are hard to foretell, and a
// window of context lost costs more than they do.
//
// Looking for text that has become easy, or for what another load brings, may lose so much in all:
// there is an account, in plain steps, to which every step adds kTryShare and gains a little more,
// up to kMostAccount or the price of a try. A try is paid from it before it is made, and what an
// opening has lost when it is closed again; there is no try that it cannot pay, and no opening for
// another load when nothing is left. So whatever happens, what is lost is at most the share, what
// was there at first, and one opening more (gate_test); half of what open drafts have gained before
// aside.
//
// Another load is no reason by itself: a batch that fills up passes through all of them. What it
// would have gained has to add up to what an opening costs first.
//
// To start again it asks for twice as much each time that starting was soon regretted, and for half
// as much again with every kSettledSteps steps that it stays closed: so it is fooled once in so
// many steps at most, whatever it is told, and does not stay shy of text that has become easy. A
// try never has to show more than half of what easy text would show in it.
//
// Closed, it costs nothing: the draft module's context is not written either. Tries find text that
// has become easy: a few steps that write context, then blocks for a few sequences. How often is
// what loses least if easy text comes at a rate that is guessed from how long it has not: a try
// that loses c steps every sqrt(2 c t / (hope - 1)) steps, t steps behind the turn. Counted among
// them is what openings lost that tries of late led to. Where easy text would not pay either, there
// are none.
class LoadGate {
 public:
  // To start, and to go on. Below it drafts are not worth what budgets do not know: sequences that
  // end apart leave a batch half empty, and prompts that come one by one have steps of their own.
  static constexpr double kLeastGain = 1.15;
  static constexpr double kLeastKept = 1.07;
  static constexpr double kLoss = 0.25;
  static constexpr double kLossOfOne = 4;    // times kLoss more with one sequence, a block a step
  static constexpr double kMistakes = 0.25;  // of tries that open for nothing, before any did
  static constexpr double kMistakeShare = 1.0 / 8;  // what one more try says of that
  static constexpr double kMostLoss = 256;
  static constexpr double kMostCredit = 4;
  // Of `needed_`, each closed step: half is forgotten in kSettledSteps.
  static constexpr double kForgetting = 0.9973;
  static constexpr double kFirstCredit = 2;      // to learn what the first text is like
  static constexpr double kNewCredit = 0.5;      // while the context is short
  static constexpr int64_t kSettledSteps = 256;  // open for so long: it was no mistake
  // With 8 rows of context alone a block of the released kind brings three quarters of what it
  // brings with a full window, with 32 nine tenths. The short wait is for where that pays, too.
  static constexpr int64_t kListenSteps = 32;
  static constexpr int64_t kShortListenSteps = 8;
  static constexpr double kClearGain = 1.25;
  static constexpr double kListenCost = 1.0 / 16;  // of a plain step, an upper bound
  // What a try costs beside its drafts, in plain steps: results that are waited for, steps of its
  // kind that are not recorded yet.
  static constexpr double kTryOverhead = 1;
  static constexpr double kTryShare = 1.0 / 160;  // of the time, at most
  static constexpr double kFirstAccount = 2;
  static constexpr double kMostAccount = 4;
  static constexpr double kSavedOfGains = 1.0 / 16;
  // What an opening costs: context that is written, and what it loses until it is closed again.
  static constexpr double kOpeningPrice = 3;
  static constexpr double kLeastHope = 1.1;
  static constexpr double kFirstChange = 1000;  // steps behind a turn in which one more is guessed
  static constexpr int64_t kResultSteps = 3;    // until a try's blocks are judged and known

  static constexpr int64_t kNewsSteps = 8;  // in which that speaks for opening

  struct Answer {
    bool draft = false;    // blocks behind this step
    bool few = false;      // a try: for a few sequences
    bool context = false;  // its rows join the draft module's context
  };

  // What it has answered so far, in steps, and how often it tried and began again.
  struct Counts {
    int64_t steps = 0, open = 0, context = 0;
    int64_t tries = 0, openings = 0;
  };

  // Once a step.
  Answer Step(const Outlook& outlook);
  bool open() const { return open_; }
  const Counts& counts() const { return counts_; }
  // Whether it would look at what a step of that many tokens could gain: where nothing new speaks
  // for opening, it counts steps alone.
  bool Looks(double tokens) const { return open_ || trying_ || HasNews(tokens); }
  // Plain steps that looking for gains may still lose.
  double account() const { return account_; }
  // Open for so long that there is a context.
  bool settled() const { return open_ && steps_ >= kListenSteps; }
  // Whether rows of a step without tokens to come (pieces of prompts) join the context.
  bool context() const { return open_ || trying_; }

 private:
  void Turn();
  void Account(const Outlook& outlook);
  void CountOpen(const Budget& budget);
  // Not beyond `most`; what is there stays.
  void Save(double steps, double most) {
    if (account_ < most) account_ = std::min(most, account_ + steps);
  }
  static double PriceOfTry(const Outlook& outlook);
  void LearnOfTry(double lost) { mistakes_ += (lost - mistakes_) * kMistakeShare; }
  double Needed(const Outlook& outlook) const;
  Answer Open(const Outlook& outlook);
  Answer Closed(const Outlook& outlook);
  static double Noise(const Budget& budget);
  static double MostLoss(const Budget& budget) { return kLoss * Noise(budget); }
  bool HasNews(double load) const;
  bool HasTried() const;
  bool Loses(const Outlook& outlook) const;
  bool TryIsDue(const Outlook& outlook) const;

  bool open_ = true;
  double closed_load_ = 0;
  double loss_ = -kFirstCredit,
         needed_ = kLoss;  // what has added up (credit below 0), and has to, to open
  double load_ = 0;        // tokens of a plain step where the credit was earned
  double lost_ = 0;        // plain steps, since it opened
  double account_ = kFirstAccount;
  double mistakes_ = kMistakes * kLoss * kLossOfOne;  // that openings lost, by try
  int64_t steps_ = 0;                                 // since it turned
  int64_t context_steps_ = 0;                         // that wrote the context, up to now
  bool ready_ = true;                                 // there is enough of it to draft
  bool trying_ = false;
  bool tried_ = false;          // since it closed
  bool opened_by_try_ = false;  // not by another load
  int64_t try_step_ = 0;        // of the try under way
  int64_t since_try_ = 0;
  Counts counts_ = {};
};

// Whether a block is drafted for one sequence. After kIdleBlocks in a row that brought nothing it
// pauses, 16 steps at first, twice as long after each attempt that fails again, 256 at most.
class SequenceGate {
 public:
  static constexpr int kIdleBlocks = 16;
  static constexpr int64_t kFirstPause = 16;
  static constexpr int64_t kLongestPause = 256;

  // Once for each step in which the sequence could have drafts: whether to make them.
  bool Step();
  // What a block that was drafted brought: drafts that were accepted, 0 when none was verified.
  void Observe(int64_t accepted);
  bool pausing() const { return pause_left_ > 0; }
  // Whether its rows join the draft module's context: before a pause ends.
  bool listens() const { return pause_left_ <= LoadGate::kListenSteps; }

 private:
  int idle_blocks_ = 0;
  int64_t pause_ = 0;  // length of the latest; 0: none since drafts were accepted
  int64_t pause_left_ = 0;
};

}  // namespace thalweg::spec
