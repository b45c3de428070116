// All that a run reads: its sources, how they are mixed, and the part of each that is held out. A position in the
// training order is one integer still, all that a checkpoint needs to resume.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/interleave.hpp"
#include "data/sample_order.hpp"
#include "data/token_stream.hpp"

namespace troupe::data {

struct weighted_stream {  ///< a source and its share of the samples
  std::shared_ptr<const token_stream> stream;
  double weight = 1;
  std::string name{};  ///< for errors
};

struct corpus_options {            ///< which sources, read how
  double validation_fraction = 0;  ///< of each source, its end
  uint64_t sequence = 0;           ///< input tokens of a sample
  uint64_t seed = 0;
  bool document_mask = false;  ///< batches say where documents start
};

/// The order of several sources: interleave says which source stands at a position, and how often it came before; that
/// number is a position in the source's own sample_order, so each source has epochs of its own and a small one with
/// much weight is repeated more often than a large one. One source alone has exactly its sample_order.
class corpus {
 public:
  /// Refused: no sources, weights that are none, a source shorter than a sequence.
  static core::result<corpus> make(std::vector<weighted_stream> sources, const corpus_options& options);

  /// A window of sequence() + 1 tokens.
  struct window {
    const token_stream* stream = nullptr;
    uint64_t first = 0;  ///< its first token
  };
  [[nodiscard]] window training(uint64_t position) const;

  /// Every window of the held-out parts once, sources interleaved by their numbers of windows. `index` <
  /// validation_windows().
  [[nodiscard]] window validation(uint64_t index) const;
  [[nodiscard]] uint64_t validation_windows() const { return validation_windows_; }
  [[nodiscard]] uint64_t validation_tokens() const;

  /// Samples of one epoch of source `i`.
  [[nodiscard]] uint64_t samples(size_t i) const { return parts_[i].order.samples(); }
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return mix_.shares(); }
  [[nodiscard]] size_t sources() const { return parts_.size(); }
  [[nodiscard]] const token_stream& source(size_t i) const { return *parts_[i].stream; }
  [[nodiscard]] uint64_t sequence() const { return sequence_; }
  [[nodiscard]] bool document_mask() const { return document_mask_; }
  /// True where a token is a byte of text in every source: a loss per token is one per byte.
  [[nodiscard]] bool tokens_are_bytes() const;

 private:
  struct part {
    std::shared_ptr<const token_stream> stream;
    token_range held_out;
    sample_order order;
  };
  corpus(std::vector<part> parts, interleave mix, const corpus_options& options);

  std::vector<part> parts_;
  interleave mix_;
  interleave held_out_mix_;
  std::vector<size_t> held_out_parts_;  ///< of the mix's sources: those with any window
  uint64_t validation_windows_ = 0;
  uint64_t sequence_ = 0;
  bool document_mask_ = false;
};

}  // namespace troupe::data
