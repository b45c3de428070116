// All data of a run: its sources, the proportions in which they are mixed, the part of each that is held out for
// validation, and further texts for validation. A position in the training order is one integer, which is all that a
// checkpoint stores to resume.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/interleave.hpp"
#include "data/masking.hpp"
#include "data/sample_order.hpp"
#include "data/token_stream.hpp"

namespace troupe::data {

/// A source of tokens and its weight: its fraction of all samples is its weight divided by the sum of all weights.
struct weighted_stream {
  std::shared_ptr<const token_stream> stream;
  double weight = 1;
  std::string name{};  ///< name of the source, for errors
};

/// A text whose windows are a validation set of their own, which is never trained on.
struct validation_stream {
  std::string set;  ///< name of the set, not empty
  std::shared_ptr<const token_stream> stream;
  std::string name{};  ///< name of the text, for errors
};

struct corpus_options {            ///< how the sources are divided and cut into samples
  double validation_fraction = 0;  ///< share of each source that is held out for validation, from its end
  uint64_t sequence = 0;           ///< number of input tokens of a sample
  uint64_t seed = 0;
  sample_shuffle shuffle = sample_shuffle::each_epoch;
  bool document_mask = false;  ///< true: batches contain document_start, so that attention stays within documents
  /// Choice of the tokens that an encoder has to find; null: each token's target is the next one.
  std::shared_ptr<const data::masking> masking = {};
  /// Token that no input of a batch may be, because the model has no position for it; nullopt: there is none.
  std::optional<uint32_t> refused_input = {};
};

/// The order of the samples of one or several sources. For each position, `interleave` decides which source has it, and
/// counts the earlier positions of this source; that number is a position in the source's own sample_order. Each source
/// therefore has its own epochs, and a small source with a large weight is repeated more often than a large one. A
/// single source has exactly the order of its sample_order.
class corpus {
 public:
  /// Builds a corpus. Refused: no sources, invalid weights, a source shorter than a sequence, sources whose tokens are
  /// known to be of two tokenizers, packed rows of another length; also of the texts in `validation`.
  static core::result<corpus> make(std::vector<weighted_stream> sources, const corpus_options& options,
                                   std::vector<validation_stream> validation = {});

  /// A window of sequence() + 1 tokens of one source.
  struct window {
    const token_stream* stream = nullptr;
    uint64_t first = 0;       ///< index of the window's first token in `stream`
    std::string_view name{};  ///< name of the source, for errors
  };
  [[nodiscard]] window training(uint64_t position) const;

  /// Returns the number of validation sets: the held-out parts of all sources, if there are any, are the first one, and
  /// each text for validation is one more.
  [[nodiscard]] size_t validation_sets() const { return held_out_.size(); }
  /// Returns the name of a set; empty for the held-out parts of the sources.
  [[nodiscard]] const std::string& validation_name(size_t set) const { return held_out_[set].set; }
  /// Returns window number `index` of a set: every window occurs once, and in the set of the held-out parts the sources
  /// alternate in proportion to their numbers of windows. Requires `index` < validation_windows(set).
  [[nodiscard]] window validation(uint64_t index, size_t set = 0) const;
  /// Returns the number of windows of a set; 0 if there is no such set.
  [[nodiscard]] uint64_t validation_windows(size_t set = 0) const;
  /// Returns the number of tokens of all sets.
  [[nodiscard]] uint64_t validation_tokens() const;

  /// Returns the number of samples in one epoch of source number `i`.
  [[nodiscard]] uint64_t samples(size_t i) const { return parts_[i].order.samples(); }
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return mix_.shares(); }
  [[nodiscard]] size_t sources() const { return parts_.size(); }
  [[nodiscard]] const token_stream& source(size_t i) const { return *parts_[i].stream; }
  /// Return the number of all streams, the sources' and then those of the texts for validation, and one of them.
  [[nodiscard]] size_t streams() const { return parts_.size() + held_out_.size() - first_text(); }
  [[nodiscard]] const token_stream& stream(size_t i) const;
  [[nodiscard]] uint64_t sequence() const { return sequence_; }
  [[nodiscard]] sample_shuffle shuffle() const { return shuffle_; }
  [[nodiscard]] bool document_mask() const { return document_mask_; }
  /// Returns the choice of the tokens that an encoder has to find; null for other models.
  [[nodiscard]] const data::masking* masking() const { return masking_.get(); }
  /// Returns the token that no input may be; nullopt if every token may be one.
  [[nodiscard]] std::optional<uint32_t> refused_input() const { return refused_input_; }
  /// True if some inputs of a training window have no target: an encoder finds masked tokens, or a source has tokens
  /// that do not count.
  [[nodiscard]] bool selects_targets() const { return selects_targets_; }
  /// True if some inputs of the windows of a validation set have no target.
  [[nodiscard]] bool selects_targets_of(size_t set) const;
  /// The training samples of a step, before masking, and how many targets they have.
  struct step_samples {
    std::vector<uint64_t> positions;
    std::vector<int64_t> tokens;  ///< sequence() + 1 tokens of each sample, in the order of the positions
    uint64_t targets = 0;
  };
  /// Reads the training samples at `positions`. Remembers the latest answer, because all micro-batches of a step ask
  /// for the same samples and take their rows from it. Errors: those of reading.
  [[nodiscard]] core::result<std::shared_ptr<const step_samples>> read_step(
      const std::vector<uint64_t>& positions) const;
  /// Returns how many targets `count` windows of a validation set have, from window `first` on. Errors: those of
  /// reading.
  [[nodiscard]] core::result<uint64_t> validation_targets(uint64_t first, uint64_t count, size_t set = 0) const;
  /// True if every source and text for validation has one token for each byte of text: a loss per token is then a loss
  /// per byte.
  [[nodiscard]] bool tokens_are_bytes() const;

 private:
  struct part {
    std::shared_ptr<const token_stream> stream;
    sample_order order;
    std::string name;
  };
  /// Tokens of a stream that belong to a validation set; at least one window.
  struct held_out_part {
    std::shared_ptr<const token_stream> stream;
    token_range tokens;
    std::string name;
  };
  struct held_out_set {
    std::string set;                   ///< name of the set; empty: the held-out parts of the sources
    std::vector<held_out_part> parts;  ///< at least one; exactly one in a named set
    interleave mix;
    uint64_t windows = 0;
  };
  /// The latest answer of read_step(); null before the first.
  struct latest_step {
    std::mutex guard;
    std::shared_ptr<const step_samples> samples;
  };
  corpus(std::vector<part> parts, interleave mix, const corpus_options& options);
  /// Adds a set if it has a window; `parts` may contain parts without one.
  void add_set(std::string name, std::vector<held_out_part> parts);
  /// Returns the index in held_out_ of the first text for validation.
  [[nodiscard]] size_t first_text() const { return !held_out_.empty() && held_out_.front().set.empty() ? 1 : 0; }

  std::vector<part> parts_;
  interleave mix_;
  std::vector<held_out_set> held_out_;
  uint64_t held_out_tokens_ = 0;
  uint64_t sequence_ = 0;
  sample_shuffle shuffle_ = sample_shuffle::each_epoch;
  bool document_mask_ = false;
  bool selects_targets_ = false;
  std::shared_ptr<const data::masking> masking_;
  std::optional<uint32_t> refused_input_;
  std::shared_ptr<latest_step> latest_ = std::make_shared<latest_step>();
};

}  // namespace troupe::data
