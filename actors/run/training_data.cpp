#include "actors/run/training_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/loading/data_record.hpp"
#include "actors/modules/host_run.hpp"
#include "core/sample_types.hpp"
#include "data/chat/chat_format.hpp"
#include "data/chat/chat_sample.hpp"
#include "data/masking.hpp"
#include "data/open_samples.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "job/model/masked_tokens.hpp"

namespace troupe::actors {
namespace {

/// Refuses a text key (the field of JSON records that contains text) that no source uses; `common` is the key of
/// sources and validation sets that have no key of their own. `streams` has the sources' streams and then those of the
/// sets.
core::result<void> check_text_keys(const std::vector<config::data_source>& sources,
                                   const std::vector<config::validation_set>& sets,
                                   const std::vector<std::shared_ptr<const data::token_stream>>& streams,
                                   const std::string& common) {
  const auto idle = [](const std::string& key, const std::string& source) {
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("{} would do nothing: it is for JSON lines, Parquet, Arrow, .tar and .mds, and '{}' is plain text "
                    "or tokens: remove it",
                    key, source));
  };
  const config::data_source* without_use = nullptr;
  bool is_used = common == data::source_options{}.text_key;  // the default key may be unused
  for (size_t i = 0; i < sources.size() && i < streams.size(); ++i) {
    const bool has_keys = streams[i]->summary().has_keys;
    const bool is_own = sources[i].text_key != common;
    if (is_own && !has_keys) return idle(fmt::format("data.sources[{}].text_key", i), sources[i].text.string());
    if (!is_own && !has_keys) without_use = &sources[i];
    is_used = is_used || (!is_own && has_keys);
  }
  for (size_t i = 0; i < sets.size() && sources.size() + i < streams.size(); ++i)
    is_used = is_used || (sets[i].text_key == common && streams[sources.size() + i]->summary().has_keys);
  return is_used || without_use == nullptr ? core::result<void>{} : idle("data.text_key", without_use->text.string());
}

/// True if the model has a token to find in a validation set.
core::result<bool> has_targets(const data::corpus& corpus, size_t set) {
  for (uint64_t w = 0; w < corpus.validation_windows(set); ++w) {
    TROUPE_ASSIGN(const uint64_t targets, corpus.validation_targets(w, 1, set));
    if (targets > 0) return true;
  }
  return false;
}

/// Refuses a validation set in which an encoder has no token to find, whose loss would be the mean of nothing.
core::result<void> check_validation_sets(const data::corpus& corpus) {
  for (size_t set = 0; corpus.masking() != nullptr && set < corpus.validation_sets(); ++set) {
    TROUPE_ASSIGN(const bool has_some, has_targets(corpus, set));
    if (has_some) continue;
    const auto& name = corpus.validation_name(set);
    const uint64_t windows = corpus.validation_windows(set);
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("{}: wanted a token that the model has to find in the validation {}, got none in its {} window{}: "
                    "raise {}data.masking.probability",
                    name.empty() ? std::string("data.validation_fraction") : "data.validation." + name,
                    name.empty() ? "part" : "set", windows, windows == 1 ? "" : "s", name.empty() ? "it or " : ""));
  }
  return {};
}

}  // namespace

core::result<std::shared_ptr<const data::masking>> training_data::make_masking() const {
  const auto& wanted = config_->data.masking;
  const auto refused = [](const std::string& key, const std::string& text) {
    return core::fail(core::error_kind::bad_input, fmt::format("{}: {}", key, text));
  };
  if (const auto problem = job::masking_problem(*config_, spec_)) return refused(problem->key, problem->text);
  if (!spec_.family->is_encoder) return std::shared_ptr<const data::masking>();
  data::masking_options made{.probability = wanted.probability,
                             .mask = wanted.mask,
                             .random = wanted.random,
                             .vocabulary = vocabulary_,
                             .special = spec_.special_tokens,
                             .seed = config_->seed};
  std::optional<uint64_t> token = spec_.mask_token;
  if (!config_->data.tokenizer_path.empty()) {
    const auto& marked = tokenizer_->marked();
    made.special.insert(made.special.end(), marked.special.begin(), marked.special.end());
    if (marked.mask) token = marked.mask;
    made.vocabulary = std::min(vocabulary_, tokenizer_->vocab_size());
  }
  if (tokenizer_ != nullptr && tokenizer_->end_of_text()) made.special.push_back(*tokenizer_->end_of_text());
  if (wanted.mask_token_id) token = wanted.mask_token_id;
  if (const auto problem = job::mask_token_problem(token, spec_)) return refused(job::mask_token_key, *problem);
  made.mask_token = static_cast<uint32_t>(*token);
  made.vocabulary = std::max(made.vocabulary, std::min(vocabulary_, *token + 1));
  auto out = data::masking::make(std::move(made));
  if (!out) return core::fail(out.error().in("data.masking"));
  return std::make_shared<const data::masking>(std::move(*out));
}

core::result<void> training_data::open(const job::blueprint& plan, const std::shared_ptr<const host_model>& model,
                                       bool is_shared, std::function<bool(const data::reading_progress&)> on_reading,
                                       opening_watch& watch) {
  config_ = plan.config;
  spec_ = plan.spec;
  vocabulary_ = plan.spec.vocabulary;
  sequence_ = plan.sequence;
  on_reading_ = std::move(on_reading);
  const auto& c = *config_;
  if (model != nullptr) {
    if (!c.data.skip.empty() || c.on_spike.skips())
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("{}: cannot be combined with a host program's own batches, which Troupe cannot skip; remove it, "
                      "got {}",
                      c.data.skip.empty() ? "on_spike.action" : "data.skip",
                      c.data.skip.empty() ? "skip" : c.data.skip.front().steps));
    cut_ = host_cut(model, c.seed);
    return {};
  }
  auto opened = data::open_tokenizer(c.data.tokenizer_path);
  if (!opened) return core::fail(opened.error().in("data.tokenizer"));
  tokenizer_ = std::move(*opened);
  if (auto ok = data::check_vocabulary(tokenizer_->description(), plan.spec.vocabulary); !ok)
    return core::fail(ok.error().in("data.tokenizer '" + c.data.tokenizer + "'"));

  TROUPE_TRY(open_format());
  if (is_shared) return {};  // share_texts() reads them, once per machine
  std::vector<std::shared_ptr<const data::token_stream>> streams;
  for (size_t i = 0; i < num_texts(); ++i) {
    TROUPE_ASSIGN(auto stream, open_text(i, watch));
    streams.push_back(std::move(stream));
  }
  return take_streams(std::move(streams));
}

core::result<void> training_data::open_format() {
  const auto& d = config_->data;
  if (!config::has_any_form(d, "chat", "instruct")) return {};
  auto opened = data::chat_format::open(d.tokenizer_path, d.chat_template, d.chat_date);
  if (!opened) return core::fail(opened.error().in("data.chat"));
  if (auto ok = data::check_vocabulary(opened->tokenizer().description(), vocabulary_); !ok)
    return core::fail(ok.error().in("data.tokenizer '" + d.tokenizer + "'"));
  format_ = std::make_shared<const data::chat_format>(std::move(*opened));
  return {};
}

core::result<std::shared_ptr<const data::token_stream>> training_data::open_packed(const config::data_source& s,
                                                                                   const data::source_options& from,
                                                                                   double held_out) const {
  const auto& d = config_->data;
  if (spec_.family->is_encoder)
    return core::refused(
        fmt::format("'{}': wanted texts for a {} model, which finds masked tokens, got a source of "
                    "the form {}",
                    s.text.string(), spec_.family->model_type, s.form));
  data::sample_options how;
  // The configuration's table of keys accepts no other names.
  how.reading.form = core::sample_form_from(s.form).value_or(core::sample_form::chat);
  how.reading.loss_on = core::loss_part_from(d.loss_on).value_or(core::loss_part::assistant);
  how.too_long = core::long_sample_from(d.too_long).value_or(core::long_sample::refuse);
  how.packing = core::sample_packing_from(d.packing).value_or(core::sample_packing::best_fit);
  if (how.reading.form != core::sample_form::labelled) how.reading.format = format_;
  if (s.text_key != data::source_options{}.text_key) how.reading.messages_key = s.text_key;
  how.reading.vocab_size = vocabulary_;
  how.sequence = sequence_;
  how.validation_fraction = held_out;
  how.fill = tokenizer_->end_of_text().value_or(0);
  // Some families give the padding token no position, so no input may be it.
  if (spec_.first_position > 0 && spec_.padding_token == how.fill) how.fill = how.fill == 0 ? 1 : 0;
  return data::open_samples(from, how);
}

std::vector<config::data_source> training_data::sources() const {
  const auto& c = *config_;
  if (!c.data.sources.empty()) return c.data.sources;
  return {{c.data.text, 1, c.data.text_key}};  // without data.sources, the one text is the source
}

size_t training_data::num_texts() const { return sources().size() + config_->data.validation.size(); }

core::result<std::shared_ptr<const data::token_stream>> training_data::open_text(size_t number,
                                                                                 opening_watch& watch) const {
  const auto& c = *config_;
  const auto trained = sources();
  const bool is_trained = number < trained.size();
  const config::data_source& s =
      is_trained ? trained[number]
                 : static_cast<const config::data_source&>(c.data.validation[number - trained.size()]);
  data::source_options source;
  source.path = s.text;
  source.max_bytes = c.data.max_bytes;
  source.bin = c.data.bin_dtype == core::dtype::i32 ? data::bin_width::u32 : data::bin_width::u16;
  source.vocab_size = vocabulary_;
  if (c.data.tokenizer_given || tokenizer_->description().kind != "bytes") source.tokens_of = tokenizer_;
  source.text_key = s.text_key;
  source.keep_documents = c.data.document_mask;
  source.watch = [&](const data::reading_progress& r) {
    const double share = r.bytes > 0 ? double(r.bytes_done) / double(r.bytes) : 1;
    return (!on_reading_ || on_reading_(r)) && watch.go_on(share).has_value();
  };
  auto stream = s.form == "text" ? data::open_tokens(source)
                                 : open_packed(s, source, is_trained ? c.data.validation_fraction : 0);
  if (!stream) return stream;
  if (auto ok = data::check_bytes_as_ids((*stream)->tokens_are_bytes(), c.data.tokenizer, vocabulary_); !ok)
    return core::fail(ok.error().in("'" + s.text.string() + "'"));
  return stream;
}

core::result<void> training_data::take_streams(std::vector<std::shared_ptr<const data::token_stream>> streams) {
  const auto& c = *config_;
  const auto from = sources();
  TROUPE_TRY(check_text_keys(from, c.data.validation, streams, c.data.text_key));
  std::vector<data::validation_stream> validation;
  for (size_t i = 0; i < c.data.validation.size(); ++i) {
    const auto& set = c.data.validation[i];
    const bool has_own_key = set.text_key != c.data.text_key && set.text_key != data::source_options{}.text_key;
    if (has_own_key && !streams[from.size() + i]->summary().has_keys)
      return core::refused(
          fmt::format("data.validation.{}.text_key would do nothing: '{}' is plain text or tokens: "
                      "remove it",
                      set.name, set.text.string()));
    validation.push_back({set.name, std::move(streams[from.size() + i]), set.text.string()});
  }
  std::vector<data::weighted_stream> weighted;
  for (size_t i = 0; i < from.size(); ++i)
    weighted.push_back({std::move(streams[i]), from[i].weight, from[i].text.string()});
  TROUPE_ASSIGN(auto masking, make_masking());
  // Some families give the padding token no position; their first position is then greater than 0.
  const bool refuses_padding = spec_.first_position > 0;
  TROUPE_ASSIGN(auto corpus, data::corpus::make(std::move(weighted),
                                                {.validation_fraction = c.data.validation_fraction,
                                                 .sequence = sequence_,
                                                 .seed = c.seed,
                                                 .shuffle = c.data.shuffle ? data::sample_shuffle::each_epoch
                                                                           : data::sample_shuffle::none,
                                                 .document_mask = c.data.document_mask,
                                                 .masking = std::move(masking),
                                                 .refused_input = refuses_padding ? spec_.padding_token : std::nullopt},
                                                std::move(validation)));
  TROUPE_TRY(check_validation_sets(corpus));
  corpus_ = std::make_shared<const data::corpus>(std::move(corpus));
  if (c.checkpoint.is_on()) (void)record();  // reads the texts now, while their files exist
  return {};
}

const std::optional<formats::data_record>& training_data::record() {
  if (record_ || corpus_ == nullptr) return record_;
  std::vector<std::string> names;
  for (const auto& source : sources()) names.push_back(source.text.string());
  const auto& d = tokenizer_->description();
  if (auto made = record_of(*corpus_, names, config_->data.validation_fraction, fmt::format("{} {}", d.kind, d.digest)))
    record_ = std::move(*made);
  return record_;
}

std::vector<std::string> training_data::sentences() const {
  std::vector<std::string> out;
  if (corpus_ == nullptr) return out;
  const auto named = sources();
  for (size_t i = 0; i < corpus_->sources() && i < named.size(); ++i)
    out.push_back(data::sentence_of(corpus_->source(i).summary(), named[i].text.string()));
  for (size_t i = 0; i < config_->data.validation.size(); ++i) {
    const auto& set = config_->data.validation[i];
    const auto& summary = corpus_->stream(corpus_->sources() + i).summary();
    out.push_back(fmt::format("validation set {}: {}", set.name, data::sentence_of(summary, set.text.string())));
  }
  if (const auto& lost = tokenizer_ == nullptr ? std::vector<uint8_t>() : tokenizer_->description().lost_bytes;
      !lost.empty())
    out.push_back(fmt::format("tokenizer '{}': texts lose the bytes for which it has no token: {}",
                              config_->data.tokenizer, fmt::join(lost, ", ")));
  return out;
}

std::vector<data::counted_text> training_data::first_sample() const {
  for (size_t i = 0; corpus_ != nullptr && i < corpus_->sources(); ++i) {
    const auto& stream = corpus_->source(i);
    if (!stream.packed()) continue;
    const auto sample = data::first_sample_of(stream);
    const bool is_known = stream.maker() || stream.tokens_are_bytes();
    return sample && is_known ? data::texts_of(*sample, *tokenizer_) : std::vector<data::counted_text>();
  }
  return {};
}

}  // namespace troupe::actors
