#include "checkpoint/convert/native_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "core/math.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::checkpoint {
namespace {

run_state run_of(const formats::tensor_source& from) {
  const auto& r = from.run;
  run_state out;
  out.step = r.steps.value_or(0);
  out.applied_updates = r.applied_updates.value_or(out.step);
  if (r.schedule_position && *r.schedule_position >= 0)
    out.schedule_position = static_cast<uint64_t>(*r.schedule_position);
  out.loss_scale = r.loss_scale;
  out.samples_per_step = r.samples_per_step;
  out.data_position = r.samples.value_or(out.step * r.samples_per_step.value_or(0));
  out.seed = r.seed;
  out.config = r.config;
  out.model = r.model;
  out.client_state = r.client_state;
  out.parameter_order = from.parameter_order;
  out.masks = r.masks;
  out.teacher = r.teacher;
  out.input_ranges = r.input_ranges;
  out.data = r.data;
  out.left_out = r.left_out;
  out.recent_losses = r.recent_losses;
  out.group_changes = r.group_changes;
  return out;
}

/// Owns two blocks of memory, so that one is filled while the other is written.
class piece_blocks {
 public:
  explicit piece_blocks(uint64_t bytes) {
    for (auto& b : blocks_) b.reset(static_cast<std::byte*>(std::aligned_alloc(formats::piece_alignment_bytes, bytes)));
  }
  [[nodiscard]] bool are_there() const { return blocks_[0] != nullptr && blocks_[1] != nullptr; }
  std::byte* next() { return blocks_[turn_++ % 2].get(); }

 private:
  struct freed {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, freed> blocks_[2];
  size_t turn_ = 0;
};

class native_writing {
 public:
  native_writing(const formats::tensor_source& from, const storage::progress_function& progress)
      : from_(from), progress_(progress), reader_(from), blocks_(native_piece_bytes) {
    for (const auto& t : from.tensors) total_ += formats::bytes_of_tensor(t);
  }

  core::result<manifest> write(shard_writer& file) {
    if (!blocks_.are_there()) return fail(error_kind::limit, "no memory for two blocks of a checkpoint");
    manifest m;
    m.run = run_of(from_);
    m.tied = from_.tied;
    for (const auto& t : from_.tensors) {
      auto entry = t;
      entry.pieces.clear();
      entry.cut = {};
      TROUPE_TRY(write(t, entry, file));
      m.tensors.push_back(std::move(entry));
    }
    TROUPE_ASSIGN(auto ended, file.finish());
    m.files.push_back(std::move(ended));
    return m;
  }

 private:
  core::result<void> write(const formats::tensor_entry& t, formats::tensor_entry& to, shard_writer& file) {
    const uint64_t element_bytes = core::size_of(t.type), elements = core::numel_of(t.shape);
    const uint64_t at_once = native_piece_bytes / element_bytes;
    for (uint64_t first = 0; first < elements; first += at_once) {
      const uint64_t count = std::min(at_once, elements - first), bytes = count * element_bytes;
      std::byte* const block = blocks_.next();
      if (before_last_) {
        TROUPE_TRY(file.wait(*before_last_));
      }
      TROUPE_TRY(reader_.read(t, first, count, {block, bytes}));
      const uint64_t padded = core::round_up(bytes, formats::piece_alignment_bytes);
      const auto digest = stage_piece_in_place({block, bytes});
      TROUPE_ASSIGN(const auto ticket, file.start_block({block, padded}));
      before_last_ = std::exchange(last_, ticket);
      to.pieces.push_back({0, first, count, offset_, digest});
      offset_ += padded;
      done_ += bytes;
      if (progress_ && !progress_(done_, total_))
        return fail(error_kind::stopped, "stopped while a checkpoint was written");
    }
    return {};
  }

  const formats::tensor_source& from_;
  const storage::progress_function& progress_;
  formats::source_reader reader_;
  piece_blocks blocks_;
  std::optional<uint64_t> last_, before_last_;
  uint64_t offset_ = formats::shard_header_bytes, done_ = 0, total_ = 0;
};

}  // namespace

uint64_t native_bytes(const formats::tensor_source& from) {
  uint64_t out = formats::shard_header_bytes;
  for (const auto& t : from.tensors) {
    const uint64_t whole = formats::bytes_of_tensor(t) / native_piece_bytes * native_piece_bytes;
    out += whole + core::round_up(formats::bytes_of_tensor(t) - whole, formats::piece_alignment_bytes);
  }
  return out;
}

core::result<native_export_report> export_native(const formats::tensor_source& from, const std::filesystem::path& root,
                                                 const storage::progress_function& progress) {
  const uint64_t bytes = native_bytes(from);
  TROUPE_ASSIGN(auto save, checkpoint_save::begin(storage::real_files(), root, from.run.steps.value_or(0), bytes));
  TROUPE_ASSIGN(auto file, save.create_shard(0, bytes));
  TROUPE_ASSIGN(auto content, native_writing(from, progress).write(file));
  TROUPE_ASSIGN(auto folder, save.commit(std::move(content)));
  return native_export_report{std::move(folder), from.tensors.size(), bytes};
}

}  // namespace troupe::checkpoint
