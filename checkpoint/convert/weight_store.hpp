// Owns two files next to a compression's output: the weights that the compression method has made so far, and the
// journal that lists them. A process that is killed leaves both, and the next one continues after the last step in the
// journal. The caller defines what a step is.
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
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

class weight_store {
 public:
  /// Opens the store in `folder`. `purpose` is a text with everything that the bytes depend on; if the folder has a
  /// store of another purpose or none, a new store begins. Refused: bytes that do not match the digests of the journal,
  /// or a journal that does not match its own digest.
  static core::result<weight_store> open(const std::filesystem::path& folder, const std::string& purpose);

  weight_store(weight_store&& other) noexcept;
  weight_store& operator=(weight_store&&) = delete;
  weight_store(const weight_store&) = delete;
  weight_store& operator=(const weight_store&) = delete;
  ~weight_store();

  /// Returns the number of steps that the journal records as complete; the caller of commit() defines what a step is,
  /// and compression methods commit after each segment of the model.
  [[nodiscard]] uint64_t steps() const { return steps_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// Adds a weight in its stored form, by its tensor's name in the source.
  core::result<void> put(const std::string& tensor, const std::vector<stored_bytes>& parts, const rounding_error& lost);
  /// Adds new values of a tensor, in fp32 and in the source's order.
  core::result<void> put_values(const std::string& tensor, std::span<const float> values);
  /// Sets the importance by which a search weights the columns of a weight.
  void put_importance(const std::string& tensor, std::vector<float> importance);

  /// Makes everything that was added durable, and records in the journal that `steps` steps are done.
  core::result<void> commit(uint64_t steps);

  /// Sets a digest of the data that the caller stores next to this file between steps; the next commit() writes the
  /// digest into the journal.
  void set_inputs_digest(std::string digest) { inputs_digest_ = std::move(digest); }
  [[nodiscard]] const std::string& inputs_digest() const { return inputs_digest_; }

  /// Returns the stored weights for an exporter; the folder must exist as long as the result is read. Refused: bytes
  /// that no longer match their digests.
  [[nodiscard]] core::result<prepared_weights> prepared() const;
  /// Returns `source` with the values that put_values() added.
  [[nodiscard]] formats::tensor_source overlaid(const formats::tensor_source& source) const;

 private:
  weight_store(std::filesystem::path folder, std::string purpose, int fd);
  core::result<uint64_t> append(std::span<const std::byte> bytes);
  core::result<void> read_journal();
  /// Compares the bytes of every part in the file with the digest in the journal.
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
