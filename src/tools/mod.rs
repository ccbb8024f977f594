//! What runs inside the sandbox: the five Leaf tools and the line protocol, as the small static program `frognano-tools`.
