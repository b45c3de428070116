// Owns the placement of buffers in a pool while the plan is written, so that peak bytes hold by construction. Placement
// is first fit in offset order; a buffer that reuses the bytes of an earlier one depends on the last reader of the
// earlier one.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::plan {

class arena {
 public:
  struct lease {
    uint64_t offset = 0;
    std::vector<uint32_t> after;  ///< ids of the instructions that must have ended before these bytes may be written,
                                  ///< because they read earlier contents
  };

  /// Takes the first free range of `bytes`, rounded up to `alignment`. The pool grows if no range is large enough.
  lease take(uint64_t bytes);
  /// Frees the bytes at `offset`, whose last reader is instruction `reader`.
  void give_back(uint64_t offset, uint32_t reader);

  [[nodiscard]] uint64_t peak_bytes() const { return peak_; }

  static constexpr uint64_t alignment = 64;

 private:
  struct span {
    uint64_t offset, bytes;
    bool taken;
    uint32_t reader;  ///< id of the last instruction that reads a free span; `none` if the span was never used
  };
  std::vector<span> spans_;  ///< spans in offset order; free neighbours are not merged, since their readers may differ
  uint64_t peak_ = 0;
};

}  // namespace troupe::plan
