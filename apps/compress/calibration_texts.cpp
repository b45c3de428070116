#include "apps/compress/calibration_texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/checkpoint/gguf_keys.hpp"
#include "apps/checkpoint/source_tokenizer.hpp"
#include "apps/compress/compress_validation.hpp"
#include "core/text.hpp"
#include "data/corpus.hpp"
#include "data/token_stream.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using models::token_windows;
using stream_pointer = std::shared_ptr<const data::token_stream>;

/// Fraction of a calibration text, at its end, that is held out for validation.
constexpr double held_out_share = 0.1;

core::result<stream_pointer> open_text(const fs::path& path, const std::shared_ptr<data::tokenizer>& tokenizer,
                                       bool is_given, bool keeps_documents, const models::model_spec& spec,
                                       const char* option) {
  data::source_options options;
  options.path = path;
  options.vocab_size = spec.vocabulary;
  if (is_given || tokenizer->description().kind != bytes_name) options.tokens_of = tokenizer;
  options.keep_documents = keeps_documents;
  auto stream = data::open_tokens(options);
  if (!stream) return fail(stream.error().in(option));
  return stream;
}

/// Returns room for `count` windows, with beginnings of documents if the model attends within documents only.
token_windows room_for(uint64_t count, uint64_t columns, bool has_documents) {
  return {.tokens = std::vector<int64_t>(count * (columns + 1)),
          .columns = columns,
          .document_starts = std::vector<uint32_t>(has_documents ? count * columns : 0)};
}

/// Copies the tokens from token `first` of the stream on to window number `i` of `out`, as a run reads its batches.
core::result<void> copy_window(const data::token_stream& s, uint64_t first, token_windows& out, uint64_t i) {
  const auto row = std::span(out.tokens).subspan(i * (out.columns + 1), out.columns + 1);
  TROUPE_TRY(s.copy(first, row));
  if (!out.document_starts.empty())
    s.document_starts(first, row.first(out.columns),
                      std::span(out.document_starts).subspan(i * out.columns, out.columns));
  return {};
}

/// Returns `count` windows spread evenly over tokens [begin, end).
core::result<token_windows> windows_of(const data::token_stream& s, uint64_t begin, uint64_t end, uint64_t count,
                                       uint64_t columns, bool has_documents) {
  token_windows out = room_for(count, columns, has_documents);
  const uint64_t room = end - begin - (columns + 1);
  for (uint64_t i = 0; i < count; ++i)
    TROUPE_TRY(copy_window(s, begin + (count > 1 ? room / (count - 1) * i + room % (count - 1) * i / (count - 1) : 0),
                           out, i));
  return out;
}

double bytes_per_token(const data::token_stream& s, const data::tokenizer& tokenizer, const token_windows& w) {
  if (s.tokens_are_bytes()) return 1;
  if (tokenizer.description().kind == "bytes") return 0;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < w.count(); ++i) {
    const auto* row = w.tokens.data() + i * (w.columns + 1) + 1;
    const std::vector<uint32_t> targets(row, row + w.columns);
    bytes += tokenizer.decode(targets).size();
  }
  return static_cast<double>(bytes) / static_cast<double>(w.count() * w.columns);
}

class reading {
 public:
  reading(const compress_arguments& a, const described_checkpoint& from, const models::model_spec& spec)
      : a_(a), from_(from), spec_(spec) {}

  core::result<calibration_texts> read() {
    columns_ = a_.sequence > 0 ? a_.sequence : std::min<uint64_t>(spec_.positions, calibration_columns);
    if (columns_ > spec_.positions)
      return fail(error_kind::bad_input,
                  fmt::format("--sequence: the model reads 1 to {} tokens, got {}", spec_.positions, columns_));
    if (a_.samples == 0) return fail(error_kind::bad_input, "--samples: wanted 1 or more, got 0");
    TROUPE_ASSIGN(auto tokenizer, tokenizer_of(a_.tokenizer, from_, spec_.vocabulary));
    tokenizer_ = std::move(tokenizer);
    const auto job = own_configuration(from_.source);
    is_masked_ = job && job->data.document_mask;
    const bool own = a_.validate.empty() && job && has_own_validation(*job);
    holds_out_ = a_.validate.empty() && !own;
    if (own) own_ = &*job;
    if (!a_.calibrate.empty()) TROUPE_TRY(calibration());
    TROUPE_TRY(own ? own_validation(*job) : other_validation());
    return std::move(out_);
  }

 private:
  /// Returns the fraction of the calibration text, at its end, that is not used for calibration, because the loss is
  /// computed over it.
  [[nodiscard]] double share_held_out() const {
    if (holds_out_) return held_out_share;
    std::error_code e;
    const bool is_runs_text = own_ != nullptr && std::ranges::any_of(own_->data.sources, [&](const auto& s) {
                                return fs::equivalent(a_.calibrate, s.text, e);
                              });
    return is_runs_text ? own_->data.validation_fraction : 0;
  }

  /// Returns a clause that says how the text for the loss differs from the text over which the run computed its
  /// validation losses; empty: it does not differ.
  [[nodiscard]] std::string changes_of(const data::corpus& now) const {
    std::string out;
    const auto& before = from_.source.run.data;
    for (size_t i = 0; before && i < std::min(now.sources(), before->sources.size()); ++i)
      if (now.source(i).size() != before->sources[i].tokens) {
        out += fmt::format(", of a text that has {} tokens and had {} in the run", now.source(i).size(),
                           before->sources[i].tokens);
        break;
      }
    return out;
  }
  [[nodiscard]] std::string mask_clause() const { return is_masked_ ? ", with the run's data.document_mask" : ""; }

  [[nodiscard]] uint64_t validation_windows(uint64_t there) const {
    const uint64_t parameters = models::make_model_table(spec_, 1, 1, sizeof(float)).numel();
    const uint64_t tokens =
        std::clamp(validation_products / parameters, least_validation_tokens, most_validation_tokens);
    return std::min(there, std::max<uint64_t>(1, tokens / columns_));
  }

  core::result<void> calibration() {
    TROUPE_ASSIGN(auto stream,
                  open_text(a_.calibrate, tokenizer_, !a_.tokenizer.empty(), is_masked_, spec_, "--calibrate"));
    const auto& s = *stream;
    const auto held_out = static_cast<uint64_t>(share_held_out() * static_cast<double>(s.size()));
    const uint64_t end = s.size() - held_out, room = end / (columns_ + 1);
    if (room < a_.samples || (holds_out_ && held_out < columns_ + 1))
      return fail(
          error_kind::bad_input,
          fmt::format("--calibrate: {} windows of {} tokens need {} tokens each{}, '{}' has {}: give a longer text, "
                      "fewer --samples or a shorter --sequence",
                      a_.samples, columns_, columns_ + 1,
                      held_out > 0 ? " before the part that is held out for the loss" : "", core::shown(a_.calibrate),
                      end));
    TROUPE_ASSIGN(auto windows, windows_of(s, 0, end, a_.samples, columns_, is_masked_));
    out_.calibration = std::move(windows);
    if (!holds_out_) return {};
    return validate_with(s, end, s.size(), fmt::format("the last tenth of {}", a_.calibrate));
  }

  core::result<void> validate_with(const data::token_stream& s, uint64_t begin, uint64_t end, const std::string& what) {
    TROUPE_ASSIGN(auto windows,
                  windows_of(s, begin, end, validation_windows((end - begin) / (columns_ + 1)), columns_, is_masked_));
    out_.validation = std::move(windows);
    out_.held_out =
        fmt::format("{}, {} windows of {} tokens{}", what, out_.validation.count(), columns_, mask_clause());
    out_.bytes_per_token = bytes_per_token(s, *tokenizer_, out_.validation);
    return {};
  }

  core::result<void> other_validation() {
    if (a_.validate.empty() || a_.validate == no_validation) return {};
    TROUPE_ASSIGN(auto stream,
                  open_text(a_.validate, tokenizer_, !a_.tokenizer.empty(), is_masked_, spec_, "--validate"));
    if (stream->size() < columns_ + 1)
      return fail(error_kind::bad_input, fmt::format("--validate: a window needs {} tokens, '{}' has {}", columns_ + 1,
                                                     core::shown(a_.validate), stream->size()));
    return validate_with(*stream, 0, stream->size(), a_.validate);
  }

  /// Reads the text that the run of the checkpoint held out, in windows of the run's sequence length.
  core::result<void> own_validation(const config::job_config& job) {
    TROUPE_ASSIGN(auto opened, data::open_tokenizer(job.data.tokenizer_path));
    const std::shared_ptr<data::tokenizer> tokenizer(std::move(opened));
    std::vector<data::weighted_stream> streams;
    for (const auto& s : job.data.sources) {
      data::source_options options;
      options.path = s.text;
      options.max_bytes = job.data.max_bytes;
      options.bin = job.data.bin_dtype == core::dtype::i32 ? data::bin_width::u32 : data::bin_width::u16;
      options.vocab_size = spec_.vocabulary;
      if (job.data.tokenizer_given || tokenizer->description().kind != bytes_name) options.tokens_of = tokenizer;
      options.text_key = s.text_key;
      options.keep_documents = is_masked_;
      TROUPE_ASSIGN(auto stream, data::open_tokens(options));
      streams.push_back({std::move(stream), s.weight, s.text.string()});
    }
    columns_ =
        job.data.sequence_length > 0 ? std::min<uint64_t>(job.data.sequence_length, spec_.positions) : spec_.positions;
    TROUPE_ASSIGN(const auto corpus,
                  data::corpus::make(
                      std::move(streams),
                      {.validation_fraction = job.data.validation_fraction, .sequence = columns_, .seed = job.seed}));
    const uint64_t there = corpus.validation_windows(), count = validation_windows(there);
    auto& w = out_.validation;
    w = room_for(count, columns_, is_masked_);
    for (uint64_t i = 0; i < count; ++i) {
      const auto from = corpus.validation(there * i / count);
      TROUPE_TRY(copy_window(*from.stream, from.first, w, i));
    }
    out_.held_out = fmt::format("what its run held out, {} of {} windows of {} tokens{}{}", count, there, columns_,
                                changes_of(corpus), mask_clause());
    out_.bytes_per_token = corpus.tokens_are_bytes() ? 1 : bytes_per_token(corpus.source(0), *tokenizer, w);
    return {};
  }

  const compress_arguments& a_;
  const described_checkpoint& from_;
  const models::model_spec& spec_;
  std::shared_ptr<data::tokenizer> tokenizer_;
  uint64_t columns_ = 0;
  bool holds_out_ = false;
  bool is_masked_ = false;  ///< true: the run of the checkpoint set data.document_mask, so each text has documents
  /// The run's configuration if the loss is computed over the text that the run held out; else null
  const config::job_config* own_ = nullptr;
  calibration_texts out_;
};

}  // namespace

core::result<calibration_texts> read_calibration_texts(const compress_arguments& a, const described_checkpoint& from,
                                                       const models::model_spec& spec) {
  return reading(a, from, spec).read();
}

}  // namespace troupe::apps
