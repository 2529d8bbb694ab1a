// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Another user of the machine, with bad intentions.
//
//   swap PATH PATH UID         -> swapping     becomes that user and exchanges the two directories
//                                              for ever; `error …` if the system refuses the first time

import LarderTesting

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Peer {
  /// Exchanges two directories until the process is killed.
  func swap(_ words: [Substring]) throws -> String? {
    #if os(Linux)
    let user = uid_t(try number(words[2]))
    guard setgid(user) == 0, setuid(user) == 0 else { return try refuse("cannot become \(user)") }
    let (first, second) = (String(words[0]), String(words[1]))
    typealias Exchange =
      @convention(c) (CInt, UnsafePointer<CChar>, CInt, UnsafePointer<CChar>, CUnsignedInt) ->
      CInt
    // glibc declares it only under _GNU_SOURCE.
    guard let symbol = unsafe dlsym(nil, "renameat2") else {
      return try refuse("no renameat2 in this C library")
    }
    let exchange = unsafe unsafeBitCast(symbol, to: Exchange.self)
    guard unsafe exchange(AT_FDCWD, first, AT_FDCWD, second, 2) == 0 else {
      return "error \(errno)"
    }
    ParentProcess.send("swapping")
    // Until the test ends it, or is killed.
    let parent = getppid()
    while getppid() == parent {
      sched_yield()
      _ = unsafe exchange(AT_FDCWD, first, AT_FDCWD, second, 2)
    }
    return nil
    #else
    return try refuse("no renameat2 on this system")
    #endif
  }
}
