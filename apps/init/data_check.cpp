#include "apps/init/data_check.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "core/sample_types.hpp"
#include "data/chat/chat_format.hpp"
#include "data/corpus.hpp"
#include "data/formats/files.hpp"
#include "data/open_samples.hpp"
#include "data/token_stream.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {
namespace {

/// Opens a source of conversations, prompts or labelled tokens, as a run does.
core::result<std::shared_ptr<const data::token_stream>> open_packed(const job::blueprint& b,
                                                                    const config::data_source& source,
                                                                    const data::source_options& from,
                                                                    double validation_fraction) {
  const auto& d = b.config->data;
  data::sample_options how;
  how.reading.form = core::sample_form_from(source.form).value_or(core::sample_form::chat);
  how.reading.loss_on = core::loss_part_from(d.loss_on).value_or(core::loss_part::assistant);
  how.too_long = core::long_sample_from(d.too_long).value_or(core::long_sample::refuse);
  how.packing = core::sample_packing_from(d.packing).value_or(core::sample_packing::best_fit);
  if (how.reading.form != core::sample_form::labelled) {
    TROUPE_ASSIGN(auto format, data::chat_format::open(d.tokenizer_path, d.chat_template, d.chat_date));
    how.reading.format = std::make_shared<const data::chat_format>(std::move(format));
  }
  if (source.text_key != data::source_options{}.text_key) how.reading.messages_key = source.text_key;
  how.reading.vocab_size = b.spec.vocabulary;
  how.sequence = b.sequence;
  how.validation_fraction = validation_fraction;
  return data::open_samples(from, how);
}

}  // namespace

core::result<void> check_data(const job::blueprint& b, double validation_fraction) {
  const auto& d = b.config->data;
  auto opened = data::open_tokenizer(d.tokenizer_path);
  if (!opened) return fail(error_kind::bad_input, "data.tokenizer: " + opened.error().text);
  const std::shared_ptr<data::tokenizer> tokenizer = std::move(*opened);
  if (auto ok = data::check_vocabulary(tokenizer->description(), b.spec.vocabulary); !ok)
    return fail(error_kind::bad_input, "data.tokenizer: " + ok.error().text);
  std::vector<data::weighted_stream> streams;
  for (const auto& source : d.sources) {
    data::source_options options;
    options.path = source.text;
    options.max_bytes = d.max_bytes;
    options.bin = d.bin_dtype == core::dtype::i32 ? data::bin_width::u32 : data::bin_width::u16;
    options.vocab_size = b.spec.vocabulary;
    if (d.tokenizer_given || tokenizer->description().kind != "bytes") options.tokens_of = tokenizer;
    options.text_key = source.text_key;
    options.watch = [](const data::reading_progress& r) { return r.bytes <= read_text_bytes_max; };
    auto stream =
        source.form == "text" ? data::open_tokens(options) : open_packed(b, source, options, validation_fraction);
    if (!stream && stream.error().kind == error_kind::stopped)
      return data::check_bytes_as_ids(
          tokenizer->description().kind == "bytes" && data::kind_of(source.text) != data::source_kind::tokens,
          d.tokenizer, b.spec.vocabulary);
    if (!stream) return fail(error_kind::bad_input, stream.error().text);
    TROUPE_TRY(data::check_bytes_as_ids((*stream)->tokens_are_bytes(), d.tokenizer, b.spec.vocabulary));
    streams.push_back({std::move(*stream), source.weight, source.text.string()});
  }
  const auto corpus = data::corpus::make(
      std::move(streams), {.validation_fraction = validation_fraction, .sequence = b.sequence, .seed = b.config->seed});
  return corpus ? core::result<void>() : fail(error_kind::bad_input, corpus.error().text);
}

}  // namespace troupe::apps
