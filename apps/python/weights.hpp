// Loads a checkpoint's weights in fp32, one tensor in memory at a time: the tensors that `to-fp32` would write to a
// file. Independent of Python.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/checkpoint_convert.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "formats/source/source_reader.hpp"
#include "storage/files/progress.hpp"

namespace troupe::apps {

struct loaded_weight {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::unique_ptr<std::byte[]> bytes;
};

/// An open checkpoint whose weights are read one by one, as fp32. One thread at a time; a concurrent call is refused.
class fp32_weights {
 public:
  /// Reads the descriptions of the tensors, and refuses a checkpoint that write_fp32() would refuse.
  static core::result<std::unique_ptr<fp32_weights>> open(const weights_arguments& a);

  fp32_weights(const fp32_weights&) = delete;
  fp32_weights& operator=(const fp32_weights&) = delete;

  [[nodiscard]] size_t left() const { return all_.size() - next_; }
  /// Returns the next tensor, in the order of DeepSpeed's converter; nothing after the last one. After an error, the
  /// next call tries again. Error stopped: `goes_on` returned false.
  core::result<std::optional<loaded_weight>> next(const storage::progress_function& goes_on);

 private:
  core::result<loaded_weight> read(const checkpoint::exported_weight& w, const storage::progress_function& goes_on);

  explicit fp32_weights(formats::tensor_source source) : source_(std::move(source)), reader_(source_) {}

  formats::tensor_source source_;
  formats::source_reader reader_;
  std::vector<checkpoint::exported_weight> all_;
  size_t next_ = 0;
  std::atomic<bool> is_read_ = false;
};

}  // namespace troupe::apps
