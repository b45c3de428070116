// Opens a session's data: the sources and the tokenizer that the configuration names.
#include <fmt/format.h>

#include "actors/session/data_record.hpp"
#include "actors/session/host_run.hpp"
#include "actors/session/parts.hpp"
#include "core/math.hpp"

namespace troupe::actors {

void session::parts::set_batch_shape() {
  const auto& c = *plan.config;
  data.loader.shape = {c.train_micro_batch_size_per_gpu, c.parallel.data,
                       static_cast<uint32_t>(c.gradient_accumulation_steps)};
  data.loader.first_lost_step = over.lost_step;
  data.loader.readers.assign(c.parallel.data, 0);
  for (uint32_t r = 0; r < plan.train.ranks(); ++r)
    if (processes.is_here(r)) ++data.loader.readers[plan.train.layout().samples_at(r)];
  data.loader.prefetch_batches = std::max<uint64_t>(c.data.prefetch_batches, c.parallel.data);
}

core::result<void> session::parts::read_data(opening_watch& watch, const std::shared_ptr<const read_texts>& texts) {
  const auto& c = *plan.config;
  set_batch_shape();
  if (modules.model != nullptr) {
    if (!c.data.skip.empty() || c.on_spike.skips())
      return core::fail(
          core::error_kind::bad_input,
          fmt::format(
              "{}: cannot be combined with a host program's own batches, of which Troupe cannot skip any; remove it, "
              "got {}",
              c.data.skip.empty() ? "on_spike.action" : "data.skip",
              c.data.skip.empty() ? "skip" : c.data.skip.front().steps));
    data.loader.cut = host_cut(modules.model, c.seed);
    return {};
  }
  if (texts != nullptr) {
    data.tokenizer = texts->tokenizer;
    data.loader.corpus = texts->corpus;
    return {};
  }
  auto opened = data::open_tokenizer(c.data.tokenizer_path);
  if (!opened) return core::fail(opened.error().in("data.tokenizer"));
  data.tokenizer = std::move(*opened);
  if (auto ok = data::check_vocabulary(data.tokenizer->description(), plan.spec.vocabulary); !ok)
    return core::fail(ok.error().in("data.tokenizer '" + c.data.tokenizer + "'"));

  if (processes.is_on()) return {};  // texts come with the term: one process of a machine reads them for all
  std::vector<std::shared_ptr<const data::token_stream>> streams;
  for (const auto& source : sources()) {
    TROUPE_ASSIGN(auto stream, open_source(source, watch));
    streams.push_back(std::move(stream));
  }
  return make_corpus(std::move(streams));
}

std::vector<config::data_source> session::parts::sources() const {
  const auto& c = *plan.config;
  if (!c.data.sources.empty()) return c.data.sources;
  return {{c.data.text, 1, c.data.text_key}};  // a host's own configuration
}

core::result<std::shared_ptr<const data::token_stream>> session::parts::open_source(const config::data_source& s,
                                                                                    opening_watch& watch) const {
  const auto& c = *plan.config;
  data::source_options source;
  source.path = s.text;
  source.max_bytes = c.data.max_bytes;
  source.bin = c.data.bin_dtype == core::dtype::i32 ? data::bin_width::u32 : data::bin_width::u16;
  source.vocab_size = plan.spec.vocabulary;
  source.tokens_of = data.tokenizer;
  source.text_key = s.text_key;
  source.keep_documents = c.data.document_mask;
  source.watch = [&](const data::reading_progress& r) {
    const double share = r.bytes > 0 ? double(r.bytes_done) / double(r.bytes) : 1;
    return (!host.hooks.on_reading || host.hooks.on_reading(r)) && watch.go_on(share).has_value();
  };
  auto stream = data::open_tokens(source);
  if (!stream) return stream;
  if (auto ok = data::check_bytes_as_ids((*stream)->tokens_are_bytes(), c.data.tokenizer, plan.spec.vocabulary); !ok)
    return core::fail(ok.error().in("'" + s.text.string() + "'"));
  return stream;
}

core::result<void> session::parts::make_corpus(std::vector<std::shared_ptr<const data::token_stream>> streams) {
  const auto& c = *plan.config;
  const auto from = sources();
  std::vector<data::weighted_stream> weighted;
  for (size_t i = 0; i < from.size(); ++i)
    weighted.push_back({std::move(streams[i]), from[i].weight, from[i].text.string()});
  TROUPE_ASSIGN(auto corpus, data::corpus::make(std::move(weighted), {.validation_fraction = c.data.validation_fraction,
                                                                      .sequence = plan.sequence,
                                                                      .seed = c.seed,
                                                                      .document_mask = c.data.document_mask}));
  data.loader.corpus = std::make_shared<const data::corpus>(std::move(corpus));
  if (c.checkpoint.is_on()) (void)data_record();  // computed now, while the files exist
  return {};
}

const std::optional<checkpoint::data_record>& session::parts::data_record() {
  if (data.record || data.loader.corpus == nullptr) return data.record;
  std::vector<std::string> names;
  for (const auto& source : sources()) names.push_back(source.text.string());
  const auto& d = data.tokenizer->description();
  if (auto made = record_of(*data.loader.corpus, names, plan.config->data.validation_fraction,
                            fmt::format("{} {}", d.kind, d.digest)))
    data.record = std::move(*made);
  return data.record;
}

core::result<uint64_t> session::parts::num_evaluations(uint64_t wanted) const {
  if (modules.model != nullptr) {
    if (wanted > 0 && modules.model->evaluation) return wanted;
    return core::fail(core::error_kind::bad_input,
                      modules.model->evaluation
                          ? "evaluation: wanted a number of batches of the host's own model, got 0"
                          : "evaluation: the host's own model has no evaluation batches");
  }
  const uint64_t windows = data.loader.corpus->validation_windows();
  if (windows == 0)
    return core::fail(core::error_kind::bad_input,
                      "evaluation: there is no validation part; set data.validation_fraction");
  const uint64_t all = core::div_up(windows, data.loader.shape.rows * data.loader.shape.ranks);
  return wanted > 0 ? std::min(wanted, all) : all;
}

data::tokenizer* session::tokenizer() const {
  if (parts_->modules.model != nullptr) return nullptr;
  // The text of these tokens is not known: they come from a .bin without a description, or are not bytes.
  const bool bytes = parts_->data.tokenizer->description().kind == "bytes";
  return bytes && !parts_->data.loader.corpus->tokens_are_bytes() ? nullptr : parts_->data.tokenizer.get();
}

std::vector<std::string> session::read_sources() const {
  std::vector<std::string> out;
  if (parts_->modules.model != nullptr) return out;
  const auto& corpus = *parts_->data.loader.corpus;
  const auto named = parts_->sources();
  for (size_t i = 0; i < corpus.sources() && i < named.size(); ++i)
    out.push_back(data::sentence_of(corpus.source(i).summary(), named[i].text.string()));
  return out;
}

bool session::tokens_are_bytes() const {
  return parts_->modules.model == nullptr && parts_->data.loader.corpus->tokens_are_bytes();
}

}  // namespace troupe::actors
