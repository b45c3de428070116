// A checkpoint of any format as a list of tensors: names, kinds, shapes, byte ranges in files, and the state of the run
// that wrote it. Loading, exporting, comparing and showing use this form alone; each format has a reader that fills it.
// source_reader.hpp and scatter_read.hpp read the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "formats/source/data_record.hpp"
#include "formats/source/file_sums.hpp"
#include "formats/source/mask_record.hpp"
#include "formats/source/run_records.hpp"
#include "formats/source/source_view.hpp"
#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {

struct source_file {  ///< one file of a tensor_source, which contains pieces of its tensors
  std::filesystem::path path;
  uint64_t bytes = 0;
  /// Bytes of a file that exists in memory only; its path is for messages.
  std::shared_ptr<const std::vector<std::byte>> content{};
  /// Virtual file whose elements are computed from other files on reading.
  std::shared_ptr<const source_view> view{};
  std::string host{};  ///< machine whose disk alone has the file; empty: this machine can read it
  /// The entries of the file's zip archives that the source uses, and which of them were compared with their CRC-32;
  /// all copies of the source share this object. Without entries if the file is no zip archive.
  std::shared_ptr<file_sums> sums = std::make_shared<file_sums>();

  /// True if the file is in the file system, not in memory and not virtual.
  [[nodiscard]] bool is_stored() const { return content == nullptr && view == nullptr; }
};

/// Returns the file of an open archive of torch.save, which has one archive; `path` may be another name of it.
source_file file_of(std::filesystem::path path, const torch_archive& archive);

/// State of the run that wrote the checkpoint; a member is empty if the format or the writer does not state it.
struct source_run {
  std::optional<uint64_t> steps;             ///< number of optimizer steps done, skipped steps included
  std::optional<uint64_t> applied_updates;   ///< number of steps that changed parameters
  std::optional<uint64_t> samples;           ///< number of samples consumed in the training order
  std::optional<uint64_t> samples_per_step;  ///< global batch size; none: unknown
  std::optional<uint64_t> seed;
  std::optional<loss_scale_record> loss_scale;
  std::optional<int64_t> schedule_position;  ///< number of updates that the learning-rate schedule has counted
  std::string config;                        ///< configuration of the run; DeepSpeed's as JSON
  std::string model;                         ///< description of the model, in the form of the code that builds it
  std::string client_state = "null";         ///< client state of the host program, as JSON
  std::vector<mask_record> masks{};          ///< masks of pruned weights; empty if the run does not prune
  std::optional<teacher_record> teacher;
  std::vector<input_range> input_ranges{};       ///< ranges of the inputs of layers that quantise their inputs
  std::optional<data_record> data{};             ///< training data whose samples `samples` counts; none: unknown
  std::vector<core::left_out_steps> left_out{};  ///< samples that the run did not train on, in the order of decisions
  std::vector<double> recent_losses{};           ///< losses of recent steps for the option `on_spike`, oldest first
  std::vector<group_change> group_changes{};     ///< values of optimizer groups that the host program has set
};

struct numbered_states;
struct clamped_values;

/// A tensor that is not imported, because Troupe does not read its type.
struct unread_tensor {
  std::string name, type;  ///< name of the tensor; name of the type in the file: `U32`, `complex64`
};

/// A file of optimizer states that cannot be read, such as one that was cut short.
struct unreadable_states {
  std::filesystem::path file;
  core::error why;
};

/// One checkpoint of any format. Pieces cover every element once, ascending, as in a manifest; unlike a manifest's,
/// they may begin at any byte of a file, and several may use the same bytes.
struct tensor_source : tensor_list {
  /// Name of the format for messages: `troupe`, `DeepSpeed ZeRO-3`, `Hugging Face` ...
  std::string format;
  std::filesystem::path folder;               ///< folder that contains the checkpoint's files
  std::vector<source_file> files;             ///< files that contain pieces; piece::file is an index in this list
  bool has_digests = false;                   ///< true: every piece::digest is set
  std::optional<storage::digest128> save_id;  ///< id in the header of every file, compared when a file is opened
  source_run run;
  /// Parameters' names in the order in which the writer's model registers them; empty if unknown.
  std::vector<std::string> parameter_order;
  /// While this mark lives, apply_retention() keeps the checkpoint (reading_mark.hpp); null: there is no mark.
  std::shared_ptr<const void> mark{};
  /// True if names begin with the numbers of pipeline layers, and the model's names are unknown; see layer_names.hpp.
  bool has_layer_names = false;
  /// Name of a tensor in the files, by its name in the source, for tensors whose two names differ.
  std::map<std::string, std::string, std::less<>> names_in_files;
  /// Stored form of a tensor's elements, such as `q4_0`, by the tensor's name, if the elements are not stored as its
  /// type.
  std::map<std::string, std::string, std::less<>> stored_as;
  /// States of an optimizer that identifies parameters by number only, see numbered_states.hpp; null if there are none
  /// or if they are among the tensors.
  std::shared_ptr<const numbered_states> numbered{};
  /// Set if the checkpoint has a file of optimizer states that cannot be read; its weights can be used alone.
  std::optional<unreadable_states> lost_states{};
  /// sentences for the user: which contents of a foreign folder's files are imported and which are not
  std::vector<std::string> remarks{};
  /// Tensors of types that Troupe does not read; they are not in `tensors`, and a remark lists them.
  std::vector<unread_tensor> unread{};
  /// Sentences about a folder that holds more than this checkpoint; the first one states which checkpoint was chosen
  /// and why. Empty if the folder holds nothing else.
  std::vector<std::string> found{};
  /// If set, values that a narrower type cannot hold are clamped on reading, and counted here; null: they are refused.
  std::shared_ptr<clamped_values> clamped{};
};

/// Prefix of remarks about contents of a folder that are not imported as tensors.
inline constexpr std::string_view left_out_mark = "left out: ";

/// Beginning of remarks about tensors that commands do not read in the form that the file stores.
inline constexpr std::string_view changed_mark = "changed: ";

/// Largest number of names that one remark lists; further names are only counted.
inline constexpr size_t max_listed_left_out = 16;

/// Adds a remark to `remarks` that names the tensors in `unread`, whose types are not read; adds none if it is empty.
void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread);

/// Returns the path of the checkpoint for messages: its folder, or its file if it is a GGUF file or one file in the
/// current folder.
std::string shown_place(const tensor_source& s);

/// Returns `samples`, but nothing if it is 0 after one step or more: a writer that does not know the number stores 0.
std::optional<uint64_t> known_samples(std::optional<uint64_t> samples, std::optional<uint64_t> steps);

/// Sorts tensors, pieces and tied names, then checks them; readers call it last. Refused, with the tensor named: a name
/// that is not UTF-8, two tensors with equal name, kind and moment, pieces that overlap, leave a gap or leave their
/// file, a tied name of a missing tensor.
core::result<void> complete(tensor_source& s);

}  // namespace troupe::formats
