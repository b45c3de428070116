// The formats that `troupe compress` writes, behind one interface: what a source becomes, how its weights are stored,
// and who opens the result. A new format is a class here and a line of make_target().
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "apps/checkpoint/output_place.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/files/progress.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// What was written.
struct compress_summary : checkpoint::compression_report {
  std::string remark;  ///< for people; mostly empty
};

class compress_target {
 public:
  compress_target() = default;
  compress_target(const compress_target&) = delete;
  compress_target& operator=(const compress_target&) = delete;
  virtual ~compress_target() = default;

  [[nodiscard]] virtual output_kind kind() const = 0;
  /// Before anything is written; refuses as `write`.
  [[nodiscard]] virtual core::result<uint64_t> needed_bytes() const = 0;
  /// How a tensor of the source is stored, by its name there; null where it stays as it is.
  [[nodiscard]] std::shared_ptr<const checkpoint::stored_form> form_of(const std::string& tensor) const {
    const auto at = forms_.find(tensor);
    return at == forms_.end() ? nullptr : at->second;
  }
  /// All files or none. `source`: the one that this is for, or one with other values. Weights that `prepared` has are
  /// taken from there.
  virtual core::result<compress_summary> write(const checkpoint::tensor_source& source,
                                               const checkpoint::prepared_weights& prepared,
                                               const std::filesystem::path& out,
                                               const checkpoint::progress_function& progress) const = 0;
  /// What a user types elsewhere to open `out`.
  [[nodiscard]] virtual std::string opened_by(const std::string& out) const = 0;

 protected:
  using stored_forms = std::map<std::string, std::shared_ptr<const checkpoint::stored_form>, std::less<>>;
  /// Before anything else is asked.
  core::result<void> take(core::result<stored_forms> forms) {
    if (!forms) return core::fail(forms.error());
    forms_ = std::move(*forms);
    return {};
  }

 private:
  stored_forms forms_;
};

/// The format that `--to` names; `from` outlives it. Refused: one that is not known, or cannot say the model.
core::result<std::unique_ptr<compress_target>> make_target(const compress_arguments& a,
                                                           const described_checkpoint& from);

inline constexpr std::string_view folder_prefix = "compressed-tensors:", gguf_prefix = "gguf:";
core::result<std::unique_ptr<compress_target>> make_folder_target(const compress_arguments& a,
                                                                  const described_checkpoint& from);
core::result<std::unique_ptr<compress_target>> make_gguf_target(const compress_arguments& a,
                                                                const described_checkpoint& from);

}  // namespace troupe::apps
