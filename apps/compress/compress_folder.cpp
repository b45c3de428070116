// Implements `compressed-tensors:FORMAT`: a folder that transformers and vLLM load, with config.json and tokenizer
// files next to the weights.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/checkpoint/companions.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/compress/compress_target.hpp"
#include "checkpoint/convert/compress.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/names/name_map.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

core::result<formats::weight_scheme> scheme_of(const compress_arguments& a, core::dtype type) {
  auto scheme = formats::scheme_of(
      {.format = a.to.substr(folder_prefix.size()), .group_size = a.group, .asymmetric = a.asymmetric, .type = type});
  if (!scheme) return fail(scheme.error().in("--to " + a.to));
  return scheme;
}

core::result<void> check_family(const described_checkpoint& c) {
  const auto& model = c.model;
  if (model.json.empty()) return fail(no_description_of(c.source));
  const auto* const family = families::find(model.model_type);
  if (family != nullptr && family->layout == core::weight_layout::in_out)
    return fail(
        error_kind::bad_input,
        fmt::format("transformers' {} has Conv1D layers, which compressed-tensors does not support: wanted a family of "
                    "linear layers ({})",
                    family->architecture, checkpoint::families_with_linear_layers()));
  if (!checkpoint::has_linear_layers(model.model_type))
    return fail(error_kind::bad_input,
                fmt::format("wanted a family of linear layers ({}), got model_type '{}'",
                            checkpoint::families_with_linear_layers(), core::shown(model.model_type)));
  return check_parameters(c);
}

class folder_target final : public compress_target {
 public:
  folder_target(const described_checkpoint& from, checkpoint::compress_options options)
      : from_(from), options_(std::move(options)) {
    options_.rename = [this](const std::string& name) { return exported_name(from_, name); };
  }

  core::result<void> plan() { return take(checkpoint::stored_forms(from_.source, options_)); }

  [[nodiscard]] output_kind kind() const override { return output_kind::folder; }
  [[nodiscard]] core::result<uint64_t> needed_bytes() const override {
    TROUPE_ASSIGN(const auto needed, checkpoint::compressed_bytes(from_.source, options_));
    return needed + header_reserve_bytes;
  }

  core::result<compress_summary> write(const formats::tensor_source& source,
                                       const checkpoint::prepared_weights& prepared, const fs::path& out,
                                       const storage::progress_function& progress) const override {
    auto options = options_;
    options.out = out;
    options.prepared = &prepared;
    options.progress = progress;
    TROUPE_ASSIGN(auto report, checkpoint::compress_weights(source, options));
    TROUPE_ASSIGN(const auto config, formats::with_quantization_config(hugging_face_config(from_.model, options.type),
                                                                       options.scheme, {"lm_head"}));
    TROUPE_TRY(storage::write_file_atomically(out / "config.json", config));
    TROUPE_ASSIGN(auto missing, copy_companions(from_.source, config, out));
    return compress_summary{std::move(report), std::move(missing)};
  }

  [[nodiscard]] bool rounds_inputs() const override {
    return options_.scheme.layout == formats::compressed_layout::int_quantized;
  }

  [[nodiscard]] std::string opened_by(const std::string& out) const override {
    return fmt::format("transformers.AutoModelForCausalLM.from_pretrained({}) opens it", core::json_string(out));
  }

 private:
  const described_checkpoint& from_;
  checkpoint::compress_options options_;
};

}  // namespace

core::result<std::unique_ptr<compress_target>> make_folder_target(const compress_arguments& a,
                                                                  const described_checkpoint& from) {
  if (!a.embeddings.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("--embeddings is only for {}TYPE: here embeddings stay as they are; remove it", gguf_prefix));
  TROUPE_ASSIGN(const auto type, dtype_from("--dtype", a.dtype));
  TROUPE_ASSIGN(const auto scheme, scheme_of(a, type));
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  TROUPE_TRY(check_family(from));
  note_foreign_buffers(a.source, from);
  auto out = std::make_unique<folder_target>(
      from, checkpoint::compress_options{.out = {}, .scheme = scheme, .type = type, .max_shard_bytes = *shard_bytes});
  TROUPE_TRY(out->plan());
  return out;
}

}  // namespace troupe::apps
