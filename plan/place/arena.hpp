// Places buffers in a pool while the plan is written, so that peak bytes hold by construction.
// First fit in offset order; a buffer that takes bytes of an earlier one depends on that one's last reader.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::plan {

class arena {
 public:
  struct lease {
    uint64_t offset = 0;
    std::vector<uint32_t> after;  ///< instructions that must have ended before these bytes may be written
  };

  /// Room for `bytes`, rounded up to `alignment`.
  lease take(uint64_t bytes);
  /// The buffer at `offset` was last read by instruction `reader`.
  void give_back(uint64_t offset, uint32_t reader);

  [[nodiscard]] uint64_t peak_bytes() const { return peak_; }

  static constexpr uint64_t alignment = 64;

 private:
  struct span {
    uint64_t offset, bytes;
    bool taken;
    uint32_t reader;  ///< of free spans: the last reader, `none` when never used
  };
  std::vector<span> spans_;  ///< in offset order; free neighbours are kept apart while their readers differ
  uint64_t peak_ = 0;
};

}  // namespace troupe::plan
