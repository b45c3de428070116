// Makes the model object of a family, after refusing specifications that cannot run.
#include "models/families/language_model.hpp"

#include <fmt/format.h>

#include "models/families/family_model.hpp"

namespace troupe::models {

namespace {

core::result<std::unique_ptr<family_model>> make_family(const model_spec& spec, core::dtype type, uint64_t rows,
                                                        uint64_t columns, device::device_id device,
                                                        const model_place& place) {
  if (type != core::dtype::f32 && type != core::dtype::bf16 && type != core::dtype::f16 && type != core::dtype::f64)
    return core::fail(error_kind::bad_input,
                      "a model computes in fp32, bf16, fp16 or fp64, got " + std::string(core::name_of(type)));
  if (rows == 0 || columns == 0) return core::fail(error_kind::bad_input, "a micro-batch requires at least one token");
  if (columns > spec.longest())
    return core::fail(error_kind::bad_input,
                      fmt::format("the model has {} positions, got sequences of {}", spec.longest(), columns));
  return std::make_unique<family_model>(spec, type, rows, columns, place, device);
}

/// A student model together with its teacher, as one model: the teacher's units come first in the table, and each call
/// is forwarded to the one that owns the unit.
class taught_model final : public language_model {
 public:
  taught_model(std::shared_ptr<family_model> model, std::shared_ptr<family_model> teacher, const teaching& by,
               core::model_table whole)
      : model_(std::move(model)), teacher_(std::move(teacher)), first_(whole.teacher_units) {
    join(whole);
    model_->learn_from(teacher_, by.terms);
  }

  [[nodiscard]] const core::model_table& table() const override { return model_->table(); }
  void read_copies(uint32_t first) override {
    model_->read_copies(first);
    join(core::model_table(model_->table()));
  }
  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override {
    if (unit >= first_) return model_->forward(unit - first_, segment, batch, input, parameters);
    micro_batch asked = batch;
    asked.training = false;
    return teacher_->forward(unit, segment, asked, input, parameters);
  }
  [[nodiscard]] bool copies_last_input(uint32_t unit, uint32_t segment) const override {
    return unit < first_ ? teacher_->copies_last_input(unit, segment)
                         : model_->copies_last_input(unit - first_, segment);
  }
  [[nodiscard]] bool loss_comes_with_backward() const override { return model_->loss_comes_with_backward(); }
  std::vector<float> next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                       const parameter_binding& parameters) override {
    return model_->next_token_logits(batch, hidden, parameters);
  }

 private:
  void join(const core::model_table& whole) {
    teacher_->join(whole, 0);
    model_->join(whole, first_);
  }

  std::shared_ptr<family_model> model_, teacher_;
  uint32_t first_ = 0;
};

}  // namespace

core::result<std::unique_ptr<language_model>> make_language_model(const model_spec& spec, core::dtype type,
                                                                  uint64_t rows, uint64_t columns,
                                                                  device::device_id device, const model_place& place) {
  return make_family(spec, type, rows, columns, device, place);
}

core::result<std::unique_ptr<language_model>> make_taught_model(const model_spec& spec, const teaching& by,
                                                                uint32_t first_of_teacher, core::dtype type,
                                                                uint64_t rows, uint64_t columns,
                                                                device::device_id device, const model_place& place) {
  TROUPE_ASSIGN(auto model, make_family(spec, type, rows, columns, device, place));
  model_place of_teacher = place;
  of_teacher.split = by.split;
  auto teacher = make_family(by.teacher, type, rows, columns, device, of_teacher);
  if (!teacher) return core::fail(teacher.error().in("the teacher"));
  core::model_table own = model->table();
  own.parameters.resize(first_of_teacher);
  return std::make_unique<taught_model>(
      std::move(model), std::move(*teacher), by,
      with_teacher(std::move(own), by, rows, columns, core::size_of(type), by.split, place.sequence));
}

}  // namespace troupe::models
