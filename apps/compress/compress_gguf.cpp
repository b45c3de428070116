// Implements `gguf:TYPE`: one file that llama.cpp loads.
#include <fmt/format.h>

#include <filesystem>

#include "apps/checkpoint/gguf_keys.hpp"
#include "apps/compress/compress_target.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

class gguf_target final : public compress_target {
 public:
  gguf_target(const described_checkpoint& from, checkpoint::gguf_export_options options)
      : from_(from), options_(std::move(options)) {
    options_.measures_error = true;
  }

  core::result<void> plan() { return take(checkpoint::stored_forms(from_.source, options_)); }

  [[nodiscard]] output_kind kind() const override { return output_kind::file; }
  [[nodiscard]] core::result<uint64_t> needed_bytes() const override {
    return checkpoint::gguf_bytes(from_.source, options_);
  }

  core::result<compress_summary> write(const formats::tensor_source& source,
                                       const checkpoint::prepared_weights& prepared, const fs::path& out,
                                       const storage::progress_function& progress) const override {
    auto options = options_;
    options.out = out;
    options.prepared = &prepared;
    options.progress = progress;
    TROUPE_ASSIGN(auto report, checkpoint::export_gguf(source, options));
    std::string remark;
    for (const auto& [type, count] : report.other_types)
      remark += fmt::format("{}{} of rows that are not whole blocks as {}", remark.empty() ? "" : ", ", count, type);
    report.tensor_bytes = report.bytes;  // reports the size of the file, which includes the metadata
    return compress_summary{std::move(report), std::move(remark)};
  }

  [[nodiscard]] std::string opened_by(const std::string& out) const override {
    return fmt::format("llama-cli -m {} opens it", core::json_string(out));
  }

 private:
  const described_checkpoint& from_;
  checkpoint::gguf_export_options options_;
};

}  // namespace

core::result<std::unique_ptr<compress_target>> make_gguf_target(const compress_arguments& a,
                                                                const described_checkpoint& from) {
  const auto name = a.to.substr(gguf_prefix.size());
  auto type = formats::mixture_from(name);
  if (!type)
    return fail(error_kind::bad_input, fmt::format("--to {}TYPE: wanted one of {}, got '{}'", gguf_prefix,
                                                   formats::mixture_names(), core::shown(name)));
  if (a.group || a.asymmetric)
    return fail(error_kind::bad_input, fmt::format("{} is only for {}FORMAT: a GGUF type has its own blocks; remove it",
                                                   a.group ? "--group" : "--asymmetric", folder_prefix));
  if (!a.embeddings.empty()) {
    const auto embeddings = formats::mixture_from(a.embeddings);
    if (!embeddings || embeddings->medium)
      return fail(error_kind::bad_input,
                  fmt::format("--embeddings: wanted a type of {} that is not a mixture, got '{}'",
                              formats::mixture_names(), core::shown(a.embeddings)));
    type->embeddings = embeddings->type;
  }
  TROUPE_ASSIGN(auto options, gguf_options_of(a.source, from, *type, a.tokenizer));
  auto out = std::make_unique<gguf_target>(from, std::move(options));
  TROUPE_TRY(out->plan());
  return out;
}

}  // namespace troupe::apps
