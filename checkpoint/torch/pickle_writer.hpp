// Writes pickles of protocol 2, opcode by opcode. Owns the text; the caller makes sure that the calls form one value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::checkpoint {

/// Pushes values onto Python's stack in the order of the calls. A container: begin it, push its members, end it.
class pickle_writer {
 public:
  pickle_writer();

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view utf8);  ///< shorter than 4 GiB

  /// Pushes a name that Python imports; with weights_only, torch accepts only its own names.
  void global(std::string_view module, std::string_view name);

  void empty_dict();
  void empty_list();
  /// Begins a run of members. end_tuple() makes them a tuple; end_items() and end_pairs() put them into the list or
  /// dict below the mark.
  void mark();
  void end_tuple();
  void end_items();
  void end_pairs();

  void call();           ///< calls the global below the tuple on top with that tuple
  void make();           ///< makes an object of the class below the tuple on top, with that tuple as arguments
  void set_state();      ///< makes the value on top the attributes of the object below it
  void persistent_id();  ///< replaces the tuple on top by the object that it is the persistent id of

  /// Ends the pickle and returns its bytes; the writer must not be used afterwards.
  std::string finish();

 private:
  void number(uint64_t value, int bytes);
  std::string out_;
};

}  // namespace troupe::checkpoint
