// The weight part of a split backward while it waits: what it will write, and the tensors that it needs for that. Owns
// those tensors and their order; forming and writing gradients is the functions' own.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

struct sink_slot;

/// `t`, or a copy of its own where it lies in the memory of `lent`, which its owner takes back.
at::Tensor apart_from(const at::Tensor& t, const at::Tensor& lent);

/// Writes of gradients in the order in which backward came to them: done in that order they give the same bits as
/// backward at once, since the products and the order of contributions are the same.
class weight_work {
 public:
  using tensors = std::vector<at::Tensor>;
  /// Writes gradients to the sink of the slot, out of the tensors that were kept for it. Reads no parameter.
  using write = std::function<void(const sink_slot&, const tensors&)>;

  void add(tensors kept, write w) { waiting_.push_back({std::move(kept), std::move(w)}); }
  /// Nothing that waits lies in the memory of `lent` any more.
  void leave(const at::Tensor& lent);
  /// Does all in order; what one write needed is freed before the next begins.
  void run(const sink_slot& slot);

 private:
  struct entry {
    tensors kept;
    write w;
  };
  std::vector<entry> waiting_;
};

}  // namespace troupe::models
