// The file of weights that a method has made so far, beside the output, and the journal that says what is in it: a
// process that is killed leaves both, and the next one continues behind the last step that the journal has. Owns these
// two files; what a step is, is the caller's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

class weight_store {
 public:
  /// Opens what `folder` holds of the same `purpose`, a text that says all that the bytes depend on; where it is
  /// another or there is nothing, begins anew in a folder of its own. Refused: bytes that do not have the digests of the
  /// journal, or a journal that has not its own.
  static core::result<weight_store> open(const std::filesystem::path& folder, const std::string& purpose);

  weight_store(weight_store&& other) noexcept;
  weight_store& operator=(weight_store&&) = delete;
  weight_store(const weight_store&) = delete;
  weight_store& operator=(const weight_store&) = delete;
  ~weight_store();

  /// Steps that are in the journal.
  [[nodiscard]] uint64_t steps() const { return steps_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// A weight as it is stored, by its tensor's name in the source.
  core::result<void> put(const std::string& tensor, const std::vector<stored_bytes>& parts, const rounding_error& lost);
  /// Other values of a tensor, fp32, in the source's order.
  core::result<void> put_values(const std::string& tensor, std::span<const float> values);
  /// What a search weighs a weight's columns with.
  void put_importance(const std::string& tensor, std::vector<float> importance);

  /// All that was put is there for good, and so many steps are done.
  core::result<void> commit(uint64_t steps);

  /// A digest of what the caller keeps beside this file from step to step; in the journal with the next commit.
  void set_inputs_digest(std::string digest) { inputs_digest_ = std::move(digest); }
  [[nodiscard]] const std::string& inputs_digest() const { return inputs_digest_; }

  /// What is there, for an exporter; the folder stays as long as it reads. Refused: bytes that no longer have their
  /// digests.
  [[nodiscard]] core::result<prepared_weights> prepared() const;
  /// `source` with the values that were put.
  [[nodiscard]] tensor_source overlaid(const tensor_source& source) const;

 private:
  weight_store(std::filesystem::path folder, std::string purpose, int fd);
  core::result<uint64_t> append(std::span<const std::byte> bytes);
  core::result<void> read_journal();
  /// Every byte against its digest.
  [[nodiscard]] core::result<void> check_bytes() const;
  [[nodiscard]] core::result<void> check_part(const std::string& tensor, const prepared_part& part) const;

  std::filesystem::path folder_;
  std::string purpose_, inputs_digest_;
  int fd_ = -1;
  uint64_t steps_ = 0, bytes_ = 0;
  prepared_weights made_;
  std::map<std::string, prepared_part, std::less<>> values_;
};

}  // namespace troupe::checkpoint
