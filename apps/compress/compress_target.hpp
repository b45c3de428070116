// Declares the formats that `troupe compress` writes, behind one interface: the size and the files of the output for a
// source, the form in which a weight is stored, and the command that opens the output. A new format is a class derived
// from compress_target and a line in make_target().
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"
#include "storage/files/progress.hpp"

namespace troupe::apps {

/// Report about a written output, and a remark for the user.
struct compress_summary : checkpoint::compression_report {
  std::string remark;  ///< sentence that is printed after the summary; empty: none
};

class compress_target {
 public:
  compress_target() = default;
  compress_target(const compress_target&) = delete;
  compress_target& operator=(const compress_target&) = delete;
  virtual ~compress_target() = default;

  [[nodiscard]] virtual output_kind kind() const = 0;
  /// Returns the bytes of the output before anything is written; refuses what `write` refuses.
  [[nodiscard]] virtual core::result<uint64_t> needed_bytes() const = 0;
  /// Returns the form in which the output stores a tensor, by the tensor's name in the source; null: unchanged.
  [[nodiscard]] std::shared_ptr<const checkpoint::stored_form> form_of(const std::string& tensor) const {
    const auto at = forms_.find(tensor);
    return at == forms_.end() ? nullptr : at->second;
  }
  /// Writes all files or none. `source` is the source that this target was made for, or one with the same tensors and
  /// other values. Weights in `prepared` replace those of `source`.
  virtual core::result<compress_summary> write(const formats::tensor_source& source,
                                               const checkpoint::prepared_weights& prepared,
                                               const std::filesystem::path& out,
                                               const storage::progress_function& progress) const = 0;
  /// True if programs that open the output also round the inputs of linear layers to 8 bits.
  [[nodiscard]] virtual bool rounds_inputs() const { return false; }
  /// Returns the command line with which another program, such as llama.cpp, opens the output `out`.
  [[nodiscard]] virtual std::string opened_by(const std::string& out) const = 0;

 protected:
  using stored_forms = std::map<std::string, std::shared_ptr<const checkpoint::stored_form>, std::less<>>;
  /// Sets the form in which the output stores each tensor. Must be called before any other function.
  core::result<void> take(core::result<stored_forms> forms) {
    if (!forms) return core::fail(forms.error());
    forms_ = std::move(*forms);
    return {};
  }

 private:
  stored_forms forms_;
};

/// Returns the format that `--to` names; `from` outlives it. Refused: an unknown format, or one that cannot describe
/// the model.
core::result<std::unique_ptr<compress_target>> make_target(const compress_arguments& a,
                                                           const described_checkpoint& from);

inline constexpr std::string_view folder_prefix = "compressed-tensors:", gguf_prefix = "gguf:";
core::result<std::unique_ptr<compress_target>> make_folder_target(const compress_arguments& a,
                                                                  const described_checkpoint& from);
core::result<std::unique_ptr<compress_target>> make_gguf_target(const compress_arguments& a,
                                                                const described_checkpoint& from);

}  // namespace troupe::apps
