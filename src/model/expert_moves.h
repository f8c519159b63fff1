// Experts that move to other ranks while steps go on: weights of a layer come piece by piece from a
// rank that holds them, and the layer's table is switched between two steps, on all ranks at once
// (spec/decoding.md 7.3 "Online"). No bit depends on it: the weights are copies.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "model/expert_parallel.h"
#include "model/model.h"

namespace thalweg::model {

class ExpertMoves {
 public:
  // Every rank of the group together. `model` was loaded with `experts`. Packed weights travel from
  // rank to rank when every rank has packed ones of the same layout; otherwise each rank reads what
  // it gets from its own copy of the checkpoint. devices: the same ranks where each is a device of
  // its own, whose weights then travel from device to device; null: those of a device go through
  // host memory. All of them outlive this. Errors: a device that uses experts as they are stored,
  // or whose ranks lay them out differently.
  static Result<std::unique_ptr<ExpertMoves>> Make(comm::Communicator* group,
                                                   ExpertParallel* experts, Model* model,
                                                   comm::Communicator* devices = nullptr);

  // Begins to bring the experts of a covered layer to other slots; every rank with the same.
  // Errors: a layer that is not there, slots that miss an expert, another move under way.
  Status Begin(int layer, std::vector<int32_t> slots);
  bool busy() const { return layer_ >= 0; }
  int layer() const { return layer_; }
  // Of the layer under way: experts that come to a rank which has not had them.
  int64_t transfers() const { return static_cast<int64_t>(transfers_.size()); }
  // Of one expert, as it travels or is read.
  int64_t expert_bytes() const { return expert_bytes_; }
  // Whether weights travel from rank to rank.
  bool by_message() const { return by_message_; }

  // Goes on, on every rank with the same number: about `bytes` at most into and out of each rank.
  // Between two steps: nothing of the model is under way on a device.
  // True: the last of them are there, and the layer is switched.
  Result<bool> Advance(int64_t bytes);
  // Of the last Advance: into or out of the rank for which it was most.
  int64_t advanced_bytes() const { return advanced_bytes_; }

 private:
  struct Transfer {
    int32_t expert = 0;
    int from = 0;
    int to = 0;
    int64_t done = 0;            // bytes
    std::byte* block = nullptr;  // on the rank that sends, and on the one that receives
  };
  struct Piece {
    size_t transfer = 0;
    int64_t begin = 0;
    int64_t bytes = 0;
  };

  ExpertMoves(comm::Communicator* group, comm::Communicator* devices, ExpertParallel* experts,
              Model* model, bool by_message);
  void List(const std::vector<int32_t>& slots);
  void FindBlocks();
  std::vector<Piece> NextPieces(int64_t bytes);
  Status Exchange(const std::vector<Piece>& pieces);
  Status ExchangeThroughHost(const std::vector<Piece>& pieces);
  Status Travel(const std::vector<Piece>& pieces);
  void Fetch(const std::vector<Piece>& pieces);
  void FetchExpert(const Transfer& transfer);
  Status Switch();

  comm::Communicator* group_;
  comm::Communicator* devices_;
  ExpertParallel* experts_;
  Model* model_;
  const bool by_message_;
  int64_t expert_bytes_ = 0;
  int64_t advanced_bytes_ = 0;
  int layer_ = -1;
  std::vector<int32_t> slots_;
  std::vector<Transfer> transfers_;
};

}  // namespace thalweg::model
