// Owns the common parts of commands that write OUT from a checkpoint: the progress line, the temporary place of the
// output until it is complete and the lock on it, so that an error, Ctrl-C or a crash leaves the previous files
// unchanged, and the last line that is printed. Leaves the content of OUT to the command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/base/work_display.hpp"
#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "checkpoint/commit/folder_lock.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

/// Free bytes on the disk that are required for headers, paddings, an index and config.json, in addition to the
/// tensors.
inline constexpr uint64_t header_reserve_bytes = uint64_t{1} << 20;

enum class output_kind : uint8_t { file, folder };

struct output_wish {
  std::filesystem::path out;
  output_kind kind = output_kind::folder;
  bool replace = false;       ///< permits replacing the output of an earlier conversion at `out`
  uint64_t needed_bytes = 0;  ///< free space to require, in bytes; 0: not checked
};

/// An output file or folder that is written under a temporary name and renamed when it is complete.
class output_place {
 public:
  /// Locks `.NAME.part` next to OUT, in which everything is written, and removes what a crash left there. Refused, and
  /// then nothing is created: an OUT that exists and is not an empty folder, unless `replace` is set and it is exactly
  /// the output of an earlier conversion (output_mark.hpp); an OUT that contains a file of `source`; an OUT that
  /// another process is writing; a parent that is not a folder or not writable; too little space.
  static core::result<output_place> prepare(const output_wish& wish, const formats::tensor_source& source);

  output_place(output_place&& other) noexcept;
  output_place& operator=(output_place&&) = delete;
  output_place(const output_place&) = delete;
  output_place& operator=(const output_place&) = delete;
  ~output_place();  ///< removes the output if commit() has not succeeded, else the files that it has replaced

  /// Returns the existing folder to write into, or the file to write.
  [[nodiscard]] const std::filesystem::path& working() const { return working_; }
  [[nodiscard]] const std::filesystem::path& out() const { return wish_.out; }
  /// Renames the output, or the folder `below` in it, to OUT. Refused as by prepare(), because OUT may have been
  /// created in the hours since then.
  core::result<void> commit(const std::filesystem::path& below = {});

 private:
  output_place(output_wish wish, std::filesystem::path room, checkpoint::folder_lock lock);

  output_wish wish_;
  /// `room_`: the folder `.NAME.part`, empty once this object is moved from; `working_`: the output in that folder
  std::filesystem::path room_, working_;
  checkpoint::folder_lock lock_;
};

/// The writing of one OUT by a command: its progress, its place, and the line about it.
class conversion {
 public:
  /// Stores its arguments, which must outlive this object. The elapsed time that say() prints begins with this call.
  conversion(const source_arguments& from, const output_arguments& to)
      : from_(from), to_(to), display_("writing", from.verbosity) {}

  /// Returns the function that shows the progress of the work; this object must outlive the function.
  storage::progress_function progress() { return from_.progress ? from_.progress : display_.progress(); }

  /// Prepares OUT by output_place::prepare(). Also refused (limit): an output that is many times as large as the files
  /// that it is made from, for example because of 20,000 names for one tensor. Notes a soft cap of logits that the run
  /// of `source` added to its model (loss.logit_soft_cap), which no output contains. Call it before place().
  core::result<void> prepare(const formats::tensor_source& source, output_kind kind = output_kind::folder,
                             uint64_t needed_bytes = 0);
  [[nodiscard]] const output_place& place() const { return *place_; }

  /// Renames the complete output, or the folder `below` in it, to OUT, by output_place::commit().
  core::result<void> commit(const std::filesystem::path& below = {});

  /// Prints the last line, such as `OUT: 1.5 GiB in 3 files, 2.0 s`, unless the output is quiet; `written` is the text
  /// between OUT and the elapsed time. With `bytes`, also prints the rate in bytes per second.
  void say(const std::string& written, std::optional<uint64_t> bytes = {}) const;

 private:
  const source_arguments& from_;
  const output_arguments& to_;
  work_display display_;
  std::optional<output_place> place_;
  /// Record of values that were clamped to the range of a narrower type; null if clamping is not allowed
  std::shared_ptr<const formats::clamped_values> clamped_;
};

}  // namespace troupe::apps
