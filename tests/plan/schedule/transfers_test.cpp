// More of it, against PyTorch's pass, stands in named_test.cpp.
#include "plan/schedule/transfers.hpp"

#include "plan/schedule/proof.hpp"
#include "tests/plan/schedule/tables.hpp"

using namespace troupe::plan;

BOOST_AUTO_TEST_SUITE(transfers)

BOOST_AUTO_TEST_CASE(a_send_stands_behind_what_it_sends_and_a_receive_where_the_sender_comes_to_it) {
  BOOST_TEST(write_table(with_transfers(named_table("1f1b", 2, 1, 2))) ==
             "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
             "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

BOOST_AUTO_TEST_CASE(stages_of_one_rank_send_each_other_nothing) {
  BOOST_TEST(write_table(with_transfers(named_table("zb_v", 1, 2, 1))) == "0F0,1F0,1I0,1W0,0I0,0W0\n");
  const auto text = write_table(with_transfers(named_table("zb_v", 2, 2, 3)));
  BOOST_TEST(text.find("1SEND_F") == std::string::npos);  // stages 1 and 2 lie on rank 1
  BOOST_TEST(text.find("2RECV_F") == std::string::npos);
  BOOST_TEST(text.find("2SEND_F") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(neighbouring_parts_of_a_backward_become_one) {
  const auto t = read_table("0F0,0F1,0I0,0W0,0I1,1F0,1F1,1I0,1I1,1W0,1W1,0W1", "a.csv");
  BOOST_TEST(!t.has_value());  // 0I0 before 1I0
  const auto good = read_table("0F0,0F1,1F0,1F1,1I0,1I1,1W0,1W1,0I0,0W0,0I1,0W1", "a.csv");
  BOOST_REQUIRE(good.has_value());
  BOOST_TEST(write_table(with_whole_backwards(*good)) == "0F0,0F1,1F0,1F1,1I0,1I1,1W0,1W1,0B0,0B1\n");
}

BOOST_AUTO_TEST_SUITE_END()
