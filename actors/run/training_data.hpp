// Owns the texts of a run as tokens: opens the tokenizer and the sources that the configuration names, and makes the
// record of the data to which the sample number in a checkpoint refers. The texts stay the same when the degrees
// change.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/loader.hpp"
#include "actors/opening/opening.hpp"
#include "actors/run/options.hpp"
#include "checkpoint/native/manifest.hpp"
#include "config/sections/job_config.hpp"
#include "data/corpus.hpp"
#include "job/blueprint.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::data {
class chat_format;
struct counted_text;
struct source_options;
}  // namespace troupe::data

namespace troupe::actors {

class training_data {
 public:
  /// Opens the tokenizer of the run that `plan` describes, and reads its sources, unless other processes share them
  /// (`is_shared`; take_streams() then provides them). `model`: a host program's own model, whose batches replace the
  /// sources; null: none. Errors: bad_input for keys, a tokenizer or a source; stopped.
  core::result<void> open(const job::blueprint& plan, const std::shared_ptr<const host_model>& model, bool is_shared,
                          std::function<bool(const data::reading_progress&)> on_reading, opening_watch& watch);
  /// Returns the number of texts that the run reads: the data sources, then the validation sets.
  [[nodiscard]] size_t num_texts() const;
  /// Reads text number `number` into tokens. Errors: bad_input, io, stopped.
  core::result<std::shared_ptr<const data::token_stream>> open_text(size_t number, opening_watch& watch) const;
  /// Makes the corpus from the tokens `streams`, one stream for each text.
  core::result<void> take_streams(std::vector<std::shared_ptr<const data::token_stream>> streams);

  /// Returns the configuration's data sources in their order.
  [[nodiscard]] std::vector<config::data_source> sources() const;
  /// Returns the corpus of tokens; null until the sources are read, and for a host program's own batches.
  [[nodiscard]] const std::shared_ptr<const data::corpus>& corpus() const { return corpus_; }
  /// Returns the tokenizer; null for a host program's own batches.
  [[nodiscard]] const std::shared_ptr<data::tokenizer>& tokenizer() const { return tokenizer_; }
  /// Returns the function that makes a host program's own batches; empty if the batches come from the corpus.
  [[nodiscard]] const std::function<std::shared_ptr<const data::batch>(const next_batch&)>& cut() const { return cut_; }
  [[nodiscard]] bool tokens_are_bytes() const { return corpus_ != nullptr && corpus_->tokens_are_bytes(); }
  /// Returns a line of text for each source that was read: files, tokens and documents; for packed samples also how
  /// many tokens count.
  [[nodiscard]] std::vector<std::string> sentences() const;
  /// Returns the text of the first sample of the first source of packed samples, divided where tokens begin or cease to
  /// count; empty without such a source, and for tokens of an unknown tokenizer.
  [[nodiscard]] std::vector<data::counted_text> first_sample() const;
  /// Returns the record by which a later run compares its data with these, computed at the first call; none for a
  /// host program's own batches, or if the data can no longer be read.
  const std::optional<formats::data_record>& record();

 private:
  std::shared_ptr<const config::job_config> config_;
  /// Makes the choice of the tokens that an encoder has to find; null for other models. Errors (bad_input): no mask
  /// token is known, and masking of a model that finds the next token.
  [[nodiscard]] core::result<std::shared_ptr<const data::masking>> make_masking() const;

  /// Opens the chat template and the tokenizer of conversations, if a source has some.
  core::result<void> open_format();
  /// Reads a source whose samples are more than a text.
  /// `held_out`: fraction of its samples that is held out for validation.
  [[nodiscard]] core::result<std::shared_ptr<const data::token_stream>> open_packed(const config::data_source& source,
                                                                                    const data::source_options& from,
                                                                                    double held_out) const;

  models::model_spec spec_;
  uint64_t vocabulary_ = 0, sequence_ = 0;
  std::function<bool(const data::reading_progress&)> on_reading_;
  std::shared_ptr<data::tokenizer> tokenizer_;
  std::shared_ptr<const data::chat_format> format_;  ///< null without conversations
  std::shared_ptr<const data::corpus> corpus_;
  std::function<std::shared_ptr<const data::batch>(const next_batch&)> cut_;
  std::optional<formats::data_record> record_;
};

}  // namespace troupe::actors
