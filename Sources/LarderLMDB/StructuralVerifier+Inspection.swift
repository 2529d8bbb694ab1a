// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import CLarderLMDB

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

extension StructuralVerifier {
  /// A data file opened by path, read-only.
  struct DataFile: ~Copyable {
    let descriptor: CInt

    init(path: String) throws(LMDBFileError) {
      // O_NONBLOCK: opening a named pipe at this path must not wait for a writer.
      let descriptor = unsafe larder_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
      guard descriptor >= 0 else { throw LMDBFileError(operation: "open", errno: errno) }
      self.descriptor = descriptor
    }

    deinit { close(descriptor) }
  }

  /// The state of one verification: the file's size, the claimed pages, and the buffered bytes.
  @safe
  struct VerificationState: ~Copyable {
    let descriptor: CInt
    let fileBytes: UInt64
    let isRegularFile: Bool
    var report = Report()
    var pageSize = 0
    /// The number of complete pages in the file.
    var filePages: UInt64 = 0
    /// The number of free pages beyond the end of the file.
    var freePagesBeyondEnd: UInt64 = 0
    var progress: ((_ pages: UInt64, _ lastPage: UInt64) -> Bool)?
    private var nextAdvance: UInt64 = 0
    private var isStopped = false

    /// A bitmap of the pages up to the last one that are in a tree or free.
    var claimed: [UInt64] = []
    /// A bitmap of the even offsets of the page being checked at which a node begins.
    var nodeStarts: [UInt64] = []
    /// Slots of one page each, for the path of the walk: a first set for the main and the free
    /// table, a second for the named table whose record is in a page of the first; then `scratch`.
    private var window: UnsafeMutableRawBufferPointer

    static let slotsPerTree = LMDBFormat.maximumDepth
    static let scratchBytes = 65_536

    init(descriptor: CInt) throws(LMDBFileError) {
      var status = stat()
      guard unsafe fstat(descriptor, &status) == 0 else {
        throw LMDBFileError(operation: "stat", errno: errno)
      }
      self.descriptor = descriptor
      fileBytes = UInt64(max(0, status.st_size))
      isRegularFile = status.st_mode & S_IFMT == S_IFREG
      unsafe window = .allocate(byteCount: LMDBFormat.metaBytes, alignment: 16)
    }

    deinit { unsafe window.deallocate() }

    var bytes: FormatBytes { unsafe FormatBytes(UnsafeRawBufferPointer(window)) }
    var scratch: Int { 2 * Self.slotsPerTree * pageSize }
    var isFull: Bool { isStopped || report.findings.count >= maximumFindings }

    mutating func note(_ code: Finding.Code, _ page: UInt64?, _ detail: String) {
      guard !isFull else { return }
      report.findings.append(Finding(code: code, page: page, detail: detail))
    }

    /// Reads into the window and returns the number of bytes read.
    func read(_ count: Int, from position: UInt64, into offset: Int) throws(LMDBFileError) -> Int {
      let room = unsafe window.count
      precondition(offset >= 0 && count >= 0 && offset <= room - count)
      var done = 0
      while done < count {
        let place = unsafe window.baseAddress! + offset + done
        let got = unsafe pread(descriptor, place, count - done, off_t(position) + off_t(done))
        if got > 0 {
          done += got
        } else if got == 0 {
          break
        } else if errno != EINTR {
          throw LMDBFileError(operation: "read", errno: errno)
        }
      }
      return done
    }

    /// Claims a page that may be beyond the end of the file.
    ///
    /// - Returns: `false` if it was claimed before.
    mutating func claim(_ page: UInt64) -> Bool {
      let (word, bit) = (Int(page / 64), UInt64(1) << (page % 64))
      guard claimed[word] & bit == 0 else { return false }
      claimed[word] |= bit
      return true
    }

    func isClaimed(_ page: UInt64) -> Bool {
      claimed[Int(page / 64)] & (UInt64(1) << (page % 64)) != 0
    }

    /// Copies bytes into the scratch space, for comparison with keys of the window.
    func place(_ bytes: [UInt8], at offset: Int) -> Range<Int> {
      let room = unsafe window.count
      precondition(offset >= 0 && offset <= room - bytes.count)
      unsafe UnsafeMutableRawBufferPointer(rebasing: window[offset...]).copyBytes(from: bytes)
      return offset..<offset + bytes.count
    }

    /// Allocates the memory of the walk. The file's size bounds it: pages beyond the end of the
    /// file must be in the free list, in eight bytes each.
    mutating func prepare(lastPage: UInt64) -> Bool {
      let pages = lastPage + 1
      filePages = fileBytes / UInt64(pageSize)
      guard pages <= filePages + fileBytes / 8 else {
        note(.fileTooShort, nil, "has \(filePages) pages, the snapshot has \(pages)")
        return false
      }
      claimed = Array(repeating: 0, count: Int(pages / 64) + 1)
      nodeStarts = Array(repeating: 0, count: pageSize / 128)
      unsafe window.deallocate()
      unsafe window = .allocate(byteCount: scratch + Self.scratchBytes, alignment: 16)
      return true
    }

    mutating func run() throws(LMDBFileError) {
      guard let metas = try readMetas() else { return }
      // LMDB's choice: the second only if it is newer.
      let isSecondNewer = metas[0].transactionID < metas[1].transactionID
      let (newer, older) = isSecondNewer ? (metas[1], metas[0]) : (metas[0], metas[1])
      report.lastPage = newer.lastPage
      report.transactionID = newer.transactionID
      let isFresh = newer.transactionID == 0
      guard isFresh || newer.transactionID - older.transactionID == 1,
        isFresh || newer.transactionID % 2 == (isSecondNewer ? 1 : 0),
        newer.transactionID <= UInt64(Int64.max), older.lastPage <= newer.lastPage
      else {
        let ids = "\(metas[0].transactionID) and \(metas[1].transactionID)"
        note(.transactionIDs, nil, "metas of transactions \(ids)")
        return
      }
      if StructuralVerifier.order(of: newer, after: older, in: descriptor) == .wrong {
        let ids = "\(newer.transactionID) after \(older.transactionID)"
        note(.transactionIDs, nil, "metas of transactions \(ids), which contradicts the free lists")
        return
      }
      try check(newer)
    }

    /// Verifies the snapshot of one transaction.
    ///
    /// - Returns: `false` without a result if its meta page is, or may be, overwritten.
    mutating func run(
      snapshot: UInt64, isUntouched: () -> Bool
    ) throws(LMDBFileError) -> Bool {
      let metas = try readMetas()
      guard isUntouched() else { return false }
      guard let metas else { return true }
      let (mine, other) = (metas[Int(snapshot & 1)], metas[Int(~snapshot & 1)])
      // The other meta has the previous transaction, or the one that was committed during the read.
      let before = snapshot > 0 ? snapshot - 1 : 0
      guard mine.transactionID == snapshot,
        other.transactionID == before || other.transactionID == snapshot + 1
      else {
        let ids = "\(metas[0].transactionID) and \(metas[1].transactionID)"
        note(.transactionIDs, nil, "metas of transactions \(ids), for snapshot \(snapshot)")
        return true
      }
      report.lastPage = mine.lastPage
      report.transactionID = snapshot
      try check(mine)
      return true
    }

    /// Verifies a snapshot whose meta is not, or no longer, in the file.
    mutating func run(from meta: MetaRecord) throws(LMDBFileError) {
      guard isRegularFile else { return note(.notAFile, nil, "is not a regular file") }
      pageSize = meta.pageSize
      if let wrong = whatIsWrong(with: meta, number: meta.number) {
        return note(.meta, meta.number, wrong)
      }
      report.lastPage = meta.lastPage
      report.transactionID = meta.transactionID
      try check(meta)
    }

    /// Walks everything that a meta reaches.
    mutating func check(_ meta: MetaRecord) throws(LMDBFileError) {
      guard prepare(lastPage: meta.lastPage) else { return }
      try walk(Tree(kind: .main, record: meta.main))
      try walk(Tree(kind: .free, record: meta.free))
      let missing = meta.lastPage + 1 > filePages ? meta.lastPage + 1 - filePages : 0
      if report.isSound, !isStopped, freePagesBeyondEnd != missing {
        note(
          .fileTooShort, nil,
          "ends \(missing) pages early, and \(missing - freePagesBeyondEnd) of them are not free")
      }
    }

    /// Reports the progress every 256 pages, and stops if the callback returns `false`.
    mutating func advance() {
      guard let progress, report.pagesReached >= nextAdvance else { return }
      nextAdvance = report.pagesReached + 256
      if !progress(report.pagesReached, report.lastPage) { isStopped = true }
    }

    /// Reads and checks both metas; returns `nil` after findings.
    mutating func readMetas() throws(LMDBFileError) -> [MetaRecord]? {
      guard isRegularFile else {
        note(.notAFile, nil, "is not a regular file")
        return nil
      }
      var metas: [MetaRecord] = []
      for number in 0..<UInt64(2) {
        let got = try read(LMDBFormat.metaBytes, from: number * UInt64(pageSize), into: 0)
        guard got == LMDBFormat.metaBytes else {
          note(.fileTooShort, number, fileBytes == 0 ? "is empty" : "ends before the meta page")
          return nil
        }
        let meta = MetaRecord(bytes)
        if let wrong = whatIsWrong(with: meta, number: number) {
          note(.meta, number, wrong)
          return nil
        }
        pageSize = meta.pageSize
        metas.append(meta)
      }
      guard fileBytes >= 2 * UInt64(pageSize) else {
        note(.fileTooShort, 1, "ends within the meta pages")
        return nil
      }
      return metas
    }

    func whatIsWrong(with meta: MetaRecord, number: UInt64) -> String? {
      if meta.magic != LMDBFormat.magic { return "has no LMDB magic" }
      if meta.version != LMDBFormat.version { return "has data version \(meta.version)" }
      if meta.pageFlags != LMDBFormat.PageFlag.meta { return "has page flags \(meta.pageFlags)" }
      if meta.number != number { return "has page number \(meta.number)" }
      let size = meta.pageSize
      if !LMDBFormat.pageSizes.contains(size) || size & (size - 1) != 0 {
        return "has page size \(size)"
      }
      if number == 1, size != pageSize { return "has page size \(size), the other \(pageSize)" }
      let flags = meta.free.flags & ~LMDBFormat.TableFlag.noSubdirectory
      if flags != LMDBFormat.TableFlag.integerKey { return "has free table flags \(flags)" }
      if meta.mapBytes > LMDBFormat.maximumMapBytes {
        return "has a map of \(meta.mapBytes) bytes"
      }
      if meta.lastPage < 1 || meta.lastPage >= meta.mapBytes / UInt64(size) {
        return "has last page \(meta.lastPage) in a map of \(meta.mapBytes) bytes"
      }
      return nil
    }
  }
}
