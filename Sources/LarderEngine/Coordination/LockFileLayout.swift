// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE FILES `locks` AND `rates`
//
// Every process of a machine that uses a lock, semaphore, leader or barrier of a store maps the file
// `locks`, and one that uses a limiter the file `rates`, which has the same format: names of limiters
// are often chosen by clients, and never take the room of locks. The files are next to `CURRENT`,
// outside of the generations: a compaction or a repair does not touch them. All PID namespaces use the
// same files. Each is created with its first use and has a fixed size.
//
//     offset     bytes
//     0          4,096           header
//     4,096      256 x 64        owner slots: the processes
//     20,480     4,096 x 64      requests: a caller that waits for or holds something
//     282,624    n x 512         lock slots: one for each kind and name (`LockTable`)
//
// HEADER     0 magic   8 version   16 lock slots   24 requests   32 owner slots   40 checksum of these
//            64 ticket of the allocation (u32)   72 owner inside   80 lowest new token   88 its inverse
//            96 time base of rates (`LockFile+Time.swift`)
// OWNER      0 id: slot number << 48 | 48 random bits   8 pid   16 start time   24 wake-up word (u32)
// LOCK SLOT  0 hash of the rest of the key; zero: free   8 kind | length << 8   16 name (250 bytes)
//            272 ticket (u32)   280 owner inside   288 first request + 1 (u32)   296 next request id
//            304 last token   312 its inverse   320 "changed" (u32)   328 time of the last check
//            336, 344 parameters   352 up to 17 words of a rate limiter, or one of a barrier
// REQUEST    0 state: id << 3 | state (u32)   4 mode | isAsync << 8   8 owner id; zero: free
//            16 lock slot (u32)   20 next request + 1 (u32)   24 id   32 token   40 since   48 caller
//            56 time of the grant; all ones: passed over
//
// THE RULES
//
//   1  The requests of a lock slot are a list in the order of their ids. Only a process that has the
//      ticket of the slot (`WriterTicket`) changes the list. It stores its owner id in "owner inside"
//      first and zero last; a process that finds another value there rebuilds the list, because its
//      predecessor was killed inside or the words are damaged.
//   2  A request is waiting, granted, held, released or abandoned. The process with the ticket grants;
//      a barrier opens by one store, for all of its parties or none (`LockFile+Momentary.swift`).
//      The caller confirms (granted to held), releases and abandons by an exchange of the state, for
//      which it needs no ticket: so releasing and cancelling never wait. It then sets "changed", and
//      settles the slot if the ticket is free; otherwise the process with the ticket does.
//   3  Requests are granted in the order of their ids: nothing overtakes a request that waits. A
//      waiter of another process that does not confirm within 20 ms is stopped, or the machine is
//      overloaded: it is passed over until it runs again, and keeps its place.
//   4  Each owner slot belongs to the process that has the lock of its byte (`ownerByte`), which the
//      kernel releases when the process ends. A waiter checks the holders every 10 ms and removes the
//      requests of processes that have ended. No pid is compared.
//   5  A token is the last token of the lock slot plus one. The first token of a slot is at least the
//      time since 1970 in units of 250 ns, the commit version of the store, and every token of a slot
//      that was used again: tokens of a name grow even if the file was deleted.
//   6  All words are checked when they are used. A damaged list is rebuilt from the requests; a lock
//      slot whose hash does not match is free; an owner restores its own slot.

/// The lock slots of a file.
struct LockTable: Sendable {
  /// The slots of names. A name's slot is within `reach` of the place that its hash gives.
  let named: Int
  let reach: Int
  /// The slots that names without room share, after the others: see `LockFile+Names.swift`.
  let shared: Int

  var slotCount: Int { named + shared }
  var fileSize: Int { LockFileLayout.slots + slotCount * LockFileLayout.slotSize }

  static let locks = LockTable(named: 1024, reach: 1024, shared: 0)
  static let rates = LockTable(named: 7168, reach: 32, shared: 1024)
}

/// Offsets and sizes of the files; the comment above has the format.
enum LockFileLayout {
  static let magic: UInt64 = 0x6b63_6f6c_7261_4c21
  static let version: UInt64 = 2
  static let requestCount = 4096
  static let ownerCount = 256

  static let owners = 4096
  static let ownerSize = 64
  static let requests = owners + ownerCount * ownerSize
  static let requestSize = 64
  static let slots = requests + requestCount * requestSize
  static let slotSize = 512

  // Header.
  static let checksum = 40
  static let allocation = 64
  static let allocationInside = 72
  static let tokenFloor = 80
  static let timeBase = 96

  // Owner slot.
  static let ownerPID = 8
  static let ownerStart = 16
  static let ownerWake = 24

  // Lock slot.
  static let slotKey = 8
  static let slotName = 16
  static let slotTicket = 272
  static let slotInside = 280
  static let slotFirst = 288
  static let slotNextID = 296
  static let slotToken = 304
  static let slotChanged = 320
  static let slotChecked = 328
  static let slotParameters = 336
  static let slotWords = 352
  static let slotWordCount = 17
  static let slotOpened = 352

  // Request.
  static let requestMode = 4
  static let requestOwner = 8
  static let requestSlot = 16
  static let requestNext = 20
  static let requestID = 24
  static let requestToken = 32
  static let requestSince = 40
  static let requestCaller = 48
  static let requestGranted = 56

  /// The byte of the file whose lock proves that the process of an owner slot lives. It is behind the
  /// contents of the file.
  static func ownerByte(_ owner: Int) -> Int64 { 1 << 40 + Int64(owner) }

  static func owner(_ owner: Int) -> Int { owners + owner * ownerSize }
  static func slot(_ slot: Int) -> Int { slots + slot * slotSize }
  static func request(_ request: Int) -> Int { requests + request * requestSize }

  /// The fixed fields of the header, with their checksum.
  static func header(_ table: LockTable) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 48)
    bytes.store(magic, at: 0)
    bytes.store(version, at: 8)
    bytes.store(UInt64(table.slotCount), at: 16)
    bytes.store(UInt64(requestCount), at: 24)
    bytes.store(UInt64(ownerCount), at: 32)
    bytes.store(XXH64.hash(Array(bytes[..<checksum])), at: checksum)
    return bytes
  }

  /// Returns the version of a valid header, or `nil` if the header is damaged or was never written.
  static func version(of header: [UInt8]) -> UInt64? {
    guard header.count >= 48, header.integer(at: 0, as: UInt64.self) == magic,
      header.integer(at: checksum, as: UInt64.self) == XXH64.hash(Array(header[..<checksum]))
    else { return nil }
    return header.integer(at: 8)
  }
}

/// The state of a request; see rule 2.
enum LockState: UInt32 {
  case idle, waiting, granted, held, released, abandoned

  static func word(_ id: UInt64, _ state: LockState) -> UInt32 {
    UInt32(truncatingIfNeeded: id) << 3 | state.rawValue
  }
}

/// The form of a request.
enum LockMode: UInt32 {
  /// Excludes every other holder.
  case exclusive
  /// Excludes exclusive holders.
  case shared
  /// One of several.
  case counted
}

/// The kind and name of a lock, in the form that a lock slot contains.
struct LockKey: Sendable {
  static let longestName = 250

  let kind: LockKind
  let length: Int
  /// The bytes of the name, eight to a word, filled with zeros.
  let words: [UInt64]
  let hash: UInt64

  init(_ kind: LockKind, name: [UInt8]) {
    self.kind = kind
    length = name.count
    words = stride(from: 0, to: name.count, by: 8).map { start in
      name[start..<min(start + 8, name.count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    hash = Self.hash(name, kind)
  }

  var name: [UInt8] {
    (0..<length).map { UInt8(truncatingIfNeeded: words[$0 / 8] >> UInt64($0 % 8 * 8)) }
  }

  /// The name, for messages.
  var text: String { isShared ? "several names" : String(decoding: name, as: UTF8.self) }

  var word: UInt64 { UInt64(kind.code) | UInt64(length) << 8 }

  // MARK: Shared slots

  /// A byte that begins no UTF-8, so no caller's name has it.
  private static let sharedMark: UInt8 = 0xFF
  /// The slots that the names with one rate share.
  private static let sharedCount: UInt64 = 64

  /// The key of the slot that this name shares with others of the same rate.
  func shared(_ parameters: (UInt64, UInt64)) -> LockKey {
    var name = [Self.sharedMark, UInt8(truncatingIfNeeded: hash >> 48 % Self.sharedCount)]
    name.append(littleEndian: parameters.0)
    name.append(littleEndian: parameters.1)
    return LockKey(kind, name: name)
  }

  var isShared: Bool { length > 0 && words[0] & 0xFF == UInt64(Self.sharedMark) }

  /// The hash that also is the checksum of the key; never zero.
  static func hash(_ name: [UInt8], _ kind: LockKind) -> UInt64 {
    max(XXH64.hash(name, seed: UInt64(kind.code)), 1)
  }
}
