// Private members for a test, where the type needs nothing for it: an explicit instantiation may name them.
//   RAILWISE_REVEAL(PeersOfGroup, RmaGroup::peers_);
//   group.*memberOf(PeersOfGroup())
#pragma once

#define RAILWISE_REVEAL(Tag, member)              \
  struct Tag {                                    \
    friend auto memberOf(Tag);                    \
  };                                              \
  template <auto kMember>                         \
  struct Tag##Opens {                             \
    friend auto memberOf(Tag) { return kMember; } \
  };                                              \
  template struct Tag##Opens<&member>
