// All data of a run: its sources, the proportions in which they are mixed, and the part of each that is held out for
// validation. A position in the training order is one integer, which is all that a checkpoint stores to resume.
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
  /// known to be of two tokenizers, packed rows of another length.
  static core::result<corpus> make(std::vector<weighted_stream> sources, const corpus_options& options);

  /// A window of sequence() + 1 tokens of one source.
  struct window {
    const token_stream* stream = nullptr;
    uint64_t first = 0;       ///< index of the window's first token in `stream`
    std::string_view name{};  ///< name of the source, for errors
  };
  [[nodiscard]] window training(uint64_t position) const;

  /// Returns window number `index` of the held-out parts of all sources: every window occurs once, and the sources
  /// alternate in proportion to their numbers of windows. Requires `index` < validation_windows().
  [[nodiscard]] window validation(uint64_t index) const;
  [[nodiscard]] uint64_t validation_windows() const { return validation_windows_; }
  [[nodiscard]] uint64_t validation_tokens() const;

  /// Returns the number of samples in one epoch of source number `i`.
  [[nodiscard]] uint64_t samples(size_t i) const { return parts_[i].order.samples(); }
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return mix_.shares(); }
  [[nodiscard]] size_t sources() const { return parts_.size(); }
  [[nodiscard]] const token_stream& source(size_t i) const { return *parts_[i].stream; }
  [[nodiscard]] uint64_t sequence() const { return sequence_; }
  [[nodiscard]] sample_shuffle shuffle() const { return shuffle_; }
  [[nodiscard]] bool document_mask() const { return document_mask_; }
  /// Returns the choice of the tokens that an encoder has to find; null for other models.
  [[nodiscard]] const data::masking* masking() const { return masking_.get(); }
  /// Returns the token that no input may be; nullopt if every token may be one.
  [[nodiscard]] std::optional<uint32_t> refused_input() const { return refused_input_; }
  /// True if some inputs of a window have no target: an encoder finds masked tokens, or a source has tokens that do not
  /// count.
  [[nodiscard]] bool selects_targets() const { return selects_targets_; }
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
  /// Returns how many targets `count` windows of the held-out parts have, from window `first` on. Errors: those of
  /// reading.
  [[nodiscard]] core::result<uint64_t> validation_targets(uint64_t first, uint64_t count) const;
  /// True if every source has one token for each byte of text: a loss per token is then a loss per byte.
  [[nodiscard]] bool tokens_are_bytes() const;

 private:
  struct part {
    std::shared_ptr<const token_stream> stream;
    token_range held_out;
    sample_order order;
    std::string name;
  };
  /// The latest answer of read_step(); null before the first.
  struct latest_step {
    std::mutex guard;
    std::shared_ptr<const step_samples> samples;
  };
  corpus(std::vector<part> parts, interleave mix, const corpus_options& options);

  std::vector<part> parts_;
  interleave mix_;
  interleave held_out_mix_;
  /// Indices of the sources that have held-out windows, in the order of held_out_mix_.
  std::vector<size_t> held_out_parts_;
  uint64_t validation_windows_ = 0;
  uint64_t sequence_ = 0;
  sample_shuffle shuffle_ = sample_shuffle::each_epoch;
  bool document_mask_ = false;
  bool selects_targets_ = false;
  std::shared_ptr<const data::masking> masking_;
  std::optional<uint32_t> refused_input_;
  std::shared_ptr<latest_step> latest_ = std::make_shared<latest_step>();
};

}  // namespace troupe::data
