// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import LarderTesting
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

@Suite struct OwnedFileTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// A process that is being started has copies of its parent's descriptors until it executes its
  /// program, and a lock lives as long as the last copy.
  @Test func `The locks of a file end with it, also while a copy of its descriptor is open`() throws
  {
    let path = directory.path + "/locked"
    let other = try OwnedFile(path: path, creation: .createIfMissing)
    var copy: CInt = -1
    do {
      let file = try OwnedFile(path: path, closesInForkedChild: true)
      #expect(try file.tryLock(.exclusive, at: 7))
      copy = dup(file.descriptor)
      #expect(try !other.tryLock(.exclusive, at: 7))
    }
    #expect(copy >= 0)
    defer { close(copy) }
    #expect(try other.tryLock(.exclusive, at: 7))
  }
}
