// A checkpoint of any format as a list of tensors: names, kinds, shapes, byte ranges in files, and what is known of the
// run that wrote it. Loading, exporting, comparing and showing work on this form alone; each format has a reader that
// fills it. Tensors' bytes are read by source_reader.hpp and scatter_read.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/native/manifest.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "checkpoint/source/source_view.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct source_file {  ///< one file that pieces lie in
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::shared_ptr<const std::vector<std::byte>> content{};  ///< of one that is in memory alone; its path is for people
  std::shared_ptr<const source_view> view{};                ///< of one that is worked out of others when it is read
  std::string host{};  ///< of one that lies on another machine's disk alone: that machine

  /// Whether it is a file of the file system's.
  [[nodiscard]] bool is_stored() const { return content == nullptr && view == nullptr; }
};

/// What a folder says of the run that wrote it; missing where its format or its writer does not say.
struct source_run {
  std::optional<uint64_t> steps;             ///< optimizer steps done, skipped ones too
  std::optional<uint64_t> applied_updates;   ///< of these, those that changed parameters
  std::optional<uint64_t> samples;           ///< of the training order, that were taken
  std::optional<uint64_t> samples_per_step;  ///< the global batch; none: not said
  std::optional<uint64_t> seed;
  std::optional<loss_scale_record> loss_scale;
  std::optional<int64_t> schedule_position;  ///< of the learning rate: updates that it has counted
  std::string config;                        ///< as it was given; DeepSpeed's as JSON
  std::string model;                         ///< as run_state::model; empty where unknown
  std::string client_state = "null";         ///< JSON
  std::vector<mask_record> masks{};          ///< of a run that prunes
  std::optional<teacher_record> teacher;
  std::vector<input_range> input_ranges{};       ///< as run_state::input_ranges
  std::optional<data_record> data{};             ///< that `samples` is a place in; none: not said
  std::vector<core::left_out_steps> left_out{};  ///< as run_state::left_out
  std::vector<double> recent_losses{};           ///< as run_state::recent_losses
};

struct numbered_states;
struct clamped_values;

/// A tensor of a file whose type nothing here reads.
struct unread_tensor {
  std::string name, type;  ///< the type as the file calls it: `U32`, `complex64`
};

/// One checkpoint of any format. Pieces cover every element once, ascending, as in a manifest; here they may begin at
/// any byte of a file, and several may lie on the same bytes.
struct tensor_source : tensor_list {
  std::string format;                ///< for people: `troupe`, `DeepSpeed ZeRO-3`, `Hugging Face` ...
  std::filesystem::path folder;      ///< the checkpoint's own
  std::vector<source_file> files;    ///< numbered by piece::file
  bool has_digests = false;          ///< piece::digest means something
  std::optional<digest128> save_id;  ///< stands in the header of every file, which is checked when it is opened
  source_run run;
  /// Parameters' names in the order in which the model that wrote it registers them; empty where unknown.
  std::vector<std::string> parameter_order;
  /// While it lives, apply_retention() leaves the checkpoint alone (reading_mark.hpp); null where there is no such
  /// mark.
  std::shared_ptr<const void> mark{};
  /// Names are a pipeline's own, by layers' numbers; what the model calls them is not known: see layer_names.hpp.
  bool has_layer_names = false;
  /// What a tensor is called in the files, by its name here, where that is another one.
  std::map<std::string, std::string, std::less<>> names_in_files;
  /// How a tensor's elements are stored, by its name here, where that is not as its type: `q4_0`.
  std::map<std::string, std::string, std::less<>> stored_as;
  /// States of an optimizer that knows parameters by number alone, see numbered_states.hpp; null: there are none, or
  /// they are among the tensors.
  std::shared_ptr<const numbered_states> numbered{};
  /// What of a foreign folder is taken over and what is not: a sentence for each file, for people.
  std::vector<std::string> remarks{};
  /// What the files hold beside `tensors` in types that nothing here reads; left out, which a remark says.
  std::vector<unread_tensor> unread{};
  /// The answer to what lies in the folder that a person named, where that is more than this checkpoint: sentences,
  /// the first of which says what was taken and why. Empty where the folder holds nothing else.
  std::vector<std::string> found{};
  /// Where it is there, values that a narrower type does not hold are clamped when they are read as it, and counted
  /// here; null: they are refused.
  std::shared_ptr<clamped_values> clamped{};
};

/// Where the checkpoint lies, for messages: its folder, or the file that it is where that lies in the current one.
std::string shown_place(const tensor_source& s);

/// A checkpoint of ours as a source.
tensor_source source_of(const checkpoint_folder& c);

/// Sorts tensors, pieces and tied names; then refuses, with the tensor named: a name that is not UTF-8, two of one
/// name, kind and moment, pieces that overlap, leave a gap or leave their file, a tied name of nothing. For readers to
/// end with.
core::result<void> complete(tensor_source& s);

}  // namespace troupe::checkpoint
