// Owns the temporary place of a command's output until it is complete, and the lock on it, so that an error, Ctrl-C or
// a crash leaves the previous files unchanged. Leaves the content to the command.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/commit/folder_lock.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::apps {

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

}  // namespace troupe::apps
