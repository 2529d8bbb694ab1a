// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The other process of the tests. It reads commands, one a line, and answers each with one line
// (`numbers` with one a write). `Peer` has the list. It ends with its parent.

import LarderTesting

let peer = Peer()
while let line = ParentProcess.nextLine(), peer.obey(line) {}
