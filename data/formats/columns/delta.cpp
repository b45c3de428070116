#include "data/formats/columns/delta.hpp"

#include <algorithm>

namespace troupe::data {

delta_numbers::delta_numbers(std::span<const std::byte> bytes) : bytes_(bytes) {
  const uint64_t block = varint();
  parts_ = varint();
  count_ = varint();
  value_ = zigzag();
  ok_ = ok_ && block > 0 && block <= delta_block_max && block % 128 == 0 && parts_ > 0 && parts_ <= delta_parts_max &&
        block % parts_ == 0 && block / parts_ % 32 == 0;
  if (ok_) part_values_ = block / parts_;
}

uint64_t delta_numbers::varint() {
  uint64_t out = 0;
  for (unsigned shift = 0; ok_; shift += 7) {
    if (at_ == bytes_.size() || shift > 63) {
      ok_ = false;
      break;
    }
    const auto b = static_cast<uint64_t>(bytes_[at_++]);
    out |= (b & 0x7F) << shift;
    if (b < 0x80) break;
  }
  return ok_ ? out : 0;
}

int64_t delta_numbers::zigzag() {
  const uint64_t x = varint();
  return static_cast<int64_t>(x >> 1) ^ -static_cast<int64_t>(x & 1);
}

bool delta_numbers::begin_block() {
  least_ = zigzag();
  if (!ok_ || parts_ > bytes_.size() - at_) return ok_ = false;
  for (uint64_t i = 0; i < parts_; ++i) widths_[i] = static_cast<uint8_t>(bytes_[at_ + i]);
  at_ += parts_;
  part_ = 0;
  return true;
}

// Begins the next miniblock, a group of packed values within a block. The last block states the bit widths of all its
// miniblocks, but stores only miniblocks that hold values.
bool delta_numbers::begin_part() {
  if (part_ == parts_ && !begin_block()) return false;
  const uint64_t bytes = part_values_ / 8 * widths_[part_];
  if (widths_[part_] > 64 || bytes > bytes_.size() - at_) return ok_ = false;
  part_begin_ = at_;
  at_ += bytes;
  ++part_;
  in_part_ = 0;
  return true;
}

std::optional<int64_t> delta_numbers::next() {
  if (!ok_ || given_ == count_) return std::nullopt;
  if (given_++ == 0) {
    part_ = parts_;
    in_part_ = part_values_;
    return value_;
  }
  if (in_part_ == part_values_ && !begin_part()) return std::nullopt;
  const unsigned width = widths_[part_ - 1];
  uint64_t delta = 0;
  for (uint64_t bit = in_part_ * width, done = 0; done < width;) {
    const auto byte = static_cast<uint64_t>(bytes_[part_begin_ + (bit + done) / 8]);
    const uint64_t skipped = (bit + done) % 8;
    delta |= (byte >> skipped) << done;
    done += 8 - skipped;
  }
  if (width < 64) delta &= (uint64_t{1} << width) - 1;
  ++in_part_;
  value_ = static_cast<int64_t>(static_cast<uint64_t>(value_) + static_cast<uint64_t>(least_) + delta);
  return value_;
}

std::optional<size_t> delta_numbers::bytes() const {
  delta_numbers walk = *this;
  walk.part_ = walk.parts_;
  for (uint64_t left = count_ > 0 ? count_ - 1 : 0; walk.ok_ && left > 0;) {
    if (!walk.begin_part()) return std::nullopt;
    left -= std::min(left, walk.part_values_);
  }
  return walk.ok_ ? std::optional(walk.at_) : std::nullopt;
}

delta_texts::delta_texts(std::span<const std::byte> bytes, bool repeats) : rest_(bytes) {
  for (auto* numbers : {repeats ? &repeated_ : nullptr, &lengths_}) {
    if (numbers == nullptr) continue;
    delta_numbers made(rest_);
    const auto taken = made.bytes();
    if (!taken) return;
    *numbers = made;
    rest_ = rest_.subspan(*taken);
  }
}

std::optional<std::string_view> delta_texts::next() {
  const auto length = lengths_ ? lengths_->next() : std::nullopt;
  if (!length || *length < 0 || static_cast<uint64_t>(*length) > rest_.size()) return std::nullopt;
  const std::string_view own(reinterpret_cast<const char*>(rest_.data()), static_cast<size_t>(*length));
  rest_ = rest_.subspan(own.size());
  if (!repeated_) return own;
  const auto repeated = repeated_->next();
  if (!repeated || *repeated < 0 || static_cast<uint64_t>(*repeated) > text_.size()) return std::nullopt;
  text_.resize(static_cast<size_t>(*repeated));
  text_ += own;
  return text_;
}

}  // namespace troupe::data
