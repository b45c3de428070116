// Puts the samples of a source into rows: the tokens go to a nameless file in the order of the source, and then, in
// the order of the rows, to the nameless file of the stream.
#include "data/open_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/chat/packing.hpp"
#include "data/documents.hpp"
#include "data/expand.hpp"
#include "data/scratch_file.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// Name of the samples in messages.
const char* name_of_samples(core::sample_form form) {
  return form == core::sample_form::labelled ? "samples" : "conversations";
}

/// Appends tokens to a nameless file, in blocks of give_bytes.
class token_writer {
 public:
  token_writer(scratch_file& sink, uint8_t width) : sink_(sink), width_(width) {}

  core::result<void> put(uint32_t token) {
    const size_t at = bytes_.size();
    bytes_.resize(at + width_);
    std::memcpy(bytes_.data() + at, &token, width_);  // little endian, as token_stream reads it
    return bytes_.size() < give_bytes ? core::result<void>() : flush();
  }
  core::result<void> put(std::span<const std::byte> tokens) {
    bytes_.insert(bytes_.end(), tokens.begin(), tokens.end());
    return bytes_.size() < give_bytes ? core::result<void>() : flush();
  }
  core::result<void> flush() {
    auto ok = sink_.append(bytes_);
    bytes_.clear();
    return ok;
  }

 private:
  scratch_file& sink_;
  uint8_t width_;
  std::vector<std::byte> bytes_;
};

}  // namespace

/// Builds a token_stream of packed samples: adds the files of a source one after the other, then packs.
class sample_builder {
 public:
  sample_builder(const source_options& source, const sample_options& samples)
      : source_(source), samples_(samples), budget_(source.max_bytes) {
    stream_->vocab_size_ = source_.vocab_size;
    stream_->width_ = token_width(source_.vocab_size);
    stream_->tokens_are_bytes_ = false;
    if (!source_.scratch.empty()) return;
    std::error_code ec;
    source_.scratch = fs::temp_directory_path(ec);
    if (ec) source_.scratch = ".";
  }

  core::result<std::shared_ptr<const token_stream>> build() {
    TROUPE_ASSIGN(const auto listed, source_files(source_.path));
    name_left_out(stream_->summary_, source_.path, listed.left_out);
    TROUPE_ASSIGN(unordered_, scratch_file::create(source_.scratch));
    for (const auto& file : listed.files) TROUPE_TRY(add(file));
    return pack();
  }

 private:
  struct read_sample {
    uint64_t first = 0;  ///< number of its first token in unordered_
    uint32_t tokens = 0;
    uint32_t spans = 0;       ///< number of its spans in counted_
    uint64_t first_span = 0;  ///< number of its first span in counted_
  };

  core::result<void> add(const fs::path& path) {
    const auto kind = kind_of(path);
    scratch_file expanded;
    const auto watch = [&](uint64_t done, uint64_t bytes) { return tell(path, done, bytes); };
    TROUPE_ASSIGN(const auto file, open_sample_file(path, budget_, expanded, source_.scratch, watch));
    if (is_packed(path) || kind == source_kind::json_lines) budget_ -= std::min(budget_, file.size());
    count_file(stream_->summary_, source_.path, path, file.size());
    token_writer out(unordered_, stream_->width_);
    uint64_t told = 0;
    const auto visit = [&](chat_sample&& sample, const std::string& place, uint64_t byte) -> core::result<void> {
      TROUPE_TRY(take(std::move(sample), place, out));
      if (byte < told + give_bytes) return {};
      told = byte;
      return tell(path, byte, file.size()) ? core::result<void>()
                                           : fail(error_kind::stopped, "stopped while reading the data");
    };
    TROUPE_TRY(read_samples(kind, file, samples_.reading, budget_, visit));
    return out.flush();
  }

  [[nodiscard]] bool tell(const fs::path& path, uint64_t done, uint64_t bytes) const {
    return !source_.watch || source_.watch({path.string(), done, bytes, tokens_});
  }

  core::result<void> take(chat_sample&& sample, const std::string& place, token_writer& out) {
    auto& told = stream_->summary_;
    const uint64_t length = sample.tokens.size(), room = samples_.sequence;
    if (length > room) {
      if (samples_.too_long == core::long_sample::drop) {
        ++told.dropped;
        return {};
      }
      if (samples_.too_long == core::long_sample::refuse)
        return core::refused(fmt::format(
            "{}: the sample has {} tokens, and a row has {} (data.sequence_length): raise "
            "that number, or set data.too_long to {} or {}",
            place, length, room, core::name_of(core::long_sample::drop), core::name_of(core::long_sample::cut)));
      cut_sample(sample, room);
      if (sample.counted.empty())
        return core::refused(
            fmt::format("{}: the sample has {} tokens, and no answer begins before token {}, where "
                        "data.sequence_length cuts it: raise that number, or set data.too_long: {}",
                        place, length, room, core::name_of(core::long_sample::drop)));
      ++told.cut;
    }
    if (all_.size() == std::numeric_limits<uint32_t>::max())
      return fail(error_kind::limit, fmt::format("{}: wanted at most {} samples in a source", place, all_.size()));
    all_.push_back({tokens_, static_cast<uint32_t>(sample.tokens.size()), static_cast<uint32_t>(sample.counted.size()),
                    counted_.size()});
    counted_.insert(counted_.end(), sample.counted.begin(), sample.counted.end());
    told.counted += counted_tokens(sample);
    tokens_ += sample.tokens.size();
    for (const uint32_t token : sample.tokens) TROUPE_TRY(out.put(token));
    return {};
  }

  /// Returns the number of samples for training. Refused: too few samples for one of the two parts.
  [[nodiscard]] core::result<uint64_t> training_samples() const {
    const double fraction = samples_.validation_fraction;
    const auto held_out = static_cast<uint64_t>(std::floor(static_cast<double>(all_.size()) * fraction));
    const auto* const what = name_of_samples(samples_.reading.form);
    if (all_.empty())
      return core::refused(stream_->summary_.dropped > 0
                               ? fmt::format("'{}': all {} {} are longer than the {} tokens of data.sequence_length, "
                                             "and data.too_long drops them: raise that number",
                                             source_.path.string(), stream_->summary_.dropped, what, samples_.sequence)
                               : fmt::format("'{}' holds no {}: nothing to train on", source_.path.string(), what));
    if (fraction > 0 && held_out == 0)
      return core::refused(
          fmt::format("'{}': data.validation_fraction {} of {} {} holds out none of them: wanted at "
                      "least one",
                      source_.path.string(), fraction, all_.size(), what));
    return all_.size() - held_out;
  }

  core::result<std::shared_ptr<const token_stream>> pack() {
    TROUPE_ASSIGN(const uint64_t training, training_samples());
    std::vector<uint32_t> lengths;
    lengths.reserve(all_.size());
    for (const auto& one : all_) lengths.push_back(one.tokens);
    const auto rows_of = [&](std::span<const uint32_t> part) {
      return samples_.packing == core::sample_packing::none ? single_rows(part.size())
                                                            : pack_rows(part, samples_.sequence);
    };
    const auto trained = rows_of(std::span(lengths).first(training));
    const auto held_out = rows_of(std::span(lengths).subspan(training));
    TROUPE_ASSIGN(auto packed, scratch_file::create(source_.scratch));
    TROUPE_ASSIGN(const auto from, unordered_.content(source_.path.string()));
    token_writer out(packed, stream_->width_);
    TROUPE_TRY(write_rows(trained, 0, from, out));
    TROUPE_TRY(write_rows(held_out, training, from, out));
    TROUPE_TRY(out.put(samples_.fill));
    ++stream_->size_;
    TROUPE_TRY(out.flush());
    TROUPE_ASSIGN(auto content, packed.content(source_.path.string()));
    stream_->files_.push_back(std::move(content));
    stream_->nameless_ = std::make_shared<const scratch_file>(std::move(packed));
    token_stream::segment all;
    all.tokens = stream_->size_;
    stream_->segments_.push_back(all);
    describe(trained.rows(), held_out.rows());
    return stream_;
  }

  /// Writes rows of samples, whose numbers count from sample `first` on.
  core::result<void> write_rows(const packed_rows& rows, uint64_t first, const core::source_file& from,
                                token_writer& out) {
    std::vector<std::byte> block;
    for (uint64_t r = 0; r < rows.rows(); ++r) {
      const uint64_t row = stream_->size_;
      for (const uint32_t number : rows.row(r)) {
        const auto& sample = all_[first + number];
        stream_->starts_.push_back(stream_->size_);
        for (uint32_t i = 0; i < sample.spans; ++i) {
          const auto& span = counted_[sample.first_span + i];
          count(stream_->size_ + span.begin, stream_->size_ + span.end);
        }
        block.resize(uint64_t{sample.tokens} * stream_->width_);
        TROUPE_TRY(from.read(sample.first * stream_->width_, block));
        TROUPE_TRY(out.put(block));
        stream_->size_ += sample.tokens;
      }
      const uint64_t end = row + samples_.sequence;
      if (stream_->size_ < end) stream_->starts_.push_back(stream_->size_);
      for (; stream_->size_ < end; ++stream_->size_) TROUPE_TRY(out.put(samples_.fill));
    }
    return {};
  }

  /// Notes that the tokens [begin, end) of the stream count.
  void count(uint64_t begin, uint64_t end) {
    stream_->counted_.push_back(begin);
    stream_->counted_.push_back(end);
  }

  void describe(uint64_t training_rows, uint64_t validation_rows) {
    const auto& how = samples_.reading;
    stream_->selects_targets_ = true;
    stream_->packed_ = packed_layout{samples_.sequence, training_rows, validation_rows,
                                     fmt::format("{} on {}, longer ones: {}; template {}", core::name_of(how.form),
                                                 core::name_of(how.loss_on), core::name_of(samples_.too_long),
                                                 how.format == nullptr ? std::string("none") : how.format->digest())};
    if (samples_.packing == core::sample_packing::none) stream_->packed_->recipe += "; one sample a row";
    if (how.format != nullptr) {
      stream_->tokens_are_bytes_ = how.format->tokenizer().description().kind == "bytes";
      if (source_.tokens_of != nullptr) stream_->maker_ = {source_.tokens_of->description(), source_.path.string()};
    }
    stream_->documents_ = all_.size();
    auto& told = stream_->summary_;
    told.documents = all_.size();
    told.tokens = tokens_;
    told.rows = training_rows + validation_rows;
    told.row_tokens = samples_.sequence;
  }

  source_options source_;
  const sample_options& samples_;
  uint64_t budget_;  ///< bytes of rows and expanded files that may still be read
  scratch_file unordered_;
  uint64_t tokens_ = 0;  ///< number of tokens of the samples so far
  std::vector<read_sample> all_;
  std::vector<token_span> counted_;  ///< spans of all samples, each counted from its sample's first token
  std::shared_ptr<token_stream> stream_ = std::make_shared<token_stream>();
};

core::result<std::shared_ptr<const token_stream>> open_samples(const source_options& source,
                                                               const sample_options& samples) {
  return sample_builder(source, samples).build();
}

core::result<chat_sample> first_sample_of(const token_stream& packed) {
  std::vector<int64_t> tokens(packed.first_document_tokens());
  TROUPE_TRY(packed.copy(0, tokens));
  labelled_tokens out;
  for (uint64_t i = 0; i < tokens.size(); ++i) {
    out.tokens.push_back(static_cast<uint32_t>(tokens[i]));
    out.counts.push_back(packed.counted(i, 1) > 0);
  }
  return sample_of(std::move(out));
}

}  // namespace troupe::data
