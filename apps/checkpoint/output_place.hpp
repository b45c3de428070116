// Where a command writes: aside until all is there, so that an error, Ctrl-C or a crash leaves what was there before.
// Owns the name beside OUT until then and the lock on it; what is written is the command's business.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/commit/folder_lock.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::apps {

enum class output_kind : uint8_t { file, folder };

struct output_wish {
  std::filesystem::path out;
  output_kind kind = output_kind::folder;
  bool replace = false;       ///< what an earlier conversion left at `out`
  uint64_t needed_bytes = 0;  ///< none where zero
};

/// A file or folder that appears whole.
class output_place {
 public:
  /// Locks `.NAME.part` beside OUT, in which all is written; what a crash left there goes. Refused, and nothing made:
  /// an OUT that exists and is no empty folder, unless `replace` and it is, whole and alone, what an earlier conversion
  /// made (output_mark.hpp); one that holds anything of `source`, which is read; one that another process is writing; a
  /// parent that is no folder or may not be written to; too little room.
  static core::result<output_place> prepare(const output_wish& wish, const checkpoint::tensor_source& source);

  output_place(output_place&& other) noexcept;
  output_place& operator=(output_place&&) = delete;
  output_place(const output_place&) = delete;
  output_place& operator=(const output_place&) = delete;
  ~output_place();  ///< removes what was not committed, and what was replaced

  /// The folder to write into, which is there, or the file to write.
  [[nodiscard]] const std::filesystem::path& working() const { return working_; }
  [[nodiscard]] const std::filesystem::path& out() const { return wish_.out; }
  /// What was written, or the folder `below` it, takes the name. Refused as by prepare(): hours may lie between.
  core::result<void> commit(const std::filesystem::path& below = {});

 private:
  output_place(output_wish wish, std::filesystem::path room, checkpoint::folder_lock lock);

  output_wish wish_;
  std::filesystem::path room_, working_;  ///< room_ is empty once moved from
  checkpoint::folder_lock lock_;
};

}  // namespace troupe::apps
