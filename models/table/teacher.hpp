// A model with a teacher as one table: the teacher's units come first, frozen and run forward only; its head is in the
// same unit as the model's own, where the two are compared. Owns that form; leaves the comparisons to models/layers/.
// No Torch.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"
#include "kernels/layers/distillation.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// A unit of the model that is compared with a unit of its teacher; both counted from their embedding.
struct unit_pair {
  uint32_t unit = 0, of_teacher = 0;
};

/// A block of the model that learns alone: it learns to compute the same as units `first` to `last` of the teacher,
/// from the input of unit `first`; all counted from their embedding.
struct block_lesson {
  uint32_t unit = 0, first = 0, last = 0;
};

struct teaching {  ///< settings of a model that learns from another one
  model_spec teacher;
  tensor_split split = {};  ///< split of the teacher over the ranks that its student is split over
  kernels::distillation_terms terms;
  double hidden_states = 0, attention = 0;  ///< weights of the mean squared differences of outputs and maps
  std::vector<unit_pair> hidden, maps;      ///< units whose outputs or maps are compared, by unit, ascending
  /// Blocks that are each trained separately against blocks of the teacher (layer-by-layer distillation), by unit. If
  /// there are any, no other loss is trained, and embedding and head stay unchanged.
  std::vector<block_lesson> blocks = {};
};

/// Returns the pairs for a model of `layers` layers, including one for the embedding. With `teacher_layer`, whose first
/// number is not 0, layer i is compared with the teacher's layer `teacher_layer[i]`, and the embedding with the
/// teacher's unit `teacher_layer[0]` - 1, counted from its embedding. Without such a list, every unit is compared with
/// every k-th of the teacher's, k = teacher_layers / layers rounded down. Source: DeepSpeedExamples, compression/bert.
std::vector<unit_pair> hidden_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer);
/// Returns the pairs for attention maps, which only blocks have; without a list, a block is compared with the last of
/// its k blocks of the teacher.
std::vector<unit_pair> map_pairs(uint32_t layers, uint32_t teacher_layers, const std::vector<uint64_t>& teacher_layer);

/// Returns, for each of `layers` blocks, the teacher's block that `teacher_layer` names, or, without such a list, the
/// next k of the teacher's blocks. Source: ZeroQuant's layer-by-layer distillation, arXiv:2206.01861, section 4.3.
std::vector<block_lesson> block_lessons(uint32_t layers, uint32_t teacher_layers,
                                        const std::vector<uint64_t>& teacher_layer);

/// Returns, for each unit of the teacher without its head, the unit of the model, counted from its embedding, whose
/// pipeline stage computes it: units that are compared are in one stage; if none are compared, blocks at the same
/// relative depth are. Ascending; empty if the order of the compared units does not allow that.
std::vector<uint32_t> units_beside(const teaching& by, uint32_t layers);

/// Prefix of the names of a teacher's parameters, layers and units.
inline constexpr const char* teacher_prefix = "teacher.";

/// Returns the table of `model` after the units of its teacher, whose last unit, the head, becomes a part of the
/// model's own head. The model's parameters keep their numbers, the teacher's follow them, frozen. Both have the same
/// micro-batch of rows x columns tokens of `element_bytes` each and the same vocabulary, and both heads are in row
/// tiles. If `model` is the table that a rank computes with, the teacher is split by `split` and `sequence`.
core::model_table with_teacher(core::model_table model, const teaching& by, uint64_t rows, uint64_t columns,
                               uint64_t element_bytes, const tensor_split& split = {},
                               const sequence_split& sequence = {});

/// Returns the table without the parameters of the teacher; the teacher's units remain.
core::model_table without_teacher(core::model_table table);

}  // namespace troupe::models
