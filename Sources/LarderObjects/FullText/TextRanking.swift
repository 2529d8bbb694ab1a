// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

#if canImport(Darwin)
internal import Darwin
#elseif canImport(Musl)
internal import Musl
#else
internal import Glibc
#endif

// RANKING
//
// The score of an object is the sum over the words of the query of BM25 (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework: BM25 and Beyond", 2009) with k1 = 1.2 and b = 0.75:
//
//     log(1 + (N - n + 0.5) / (n + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * length / average))
//
// where N is the number of objects in the index, n that of the objects with the word, f the
// occurrences of the word in the object, and length the number of words of the object.

/// An object that matches a full-text query.
struct TextHit: Sendable {
  let sequence: UInt64
  var score: Double
}

/// The evaluation of a full-text query over postings.
struct TextRanking {
  var totals: TextTotals
  /// The objects that contain each word, in the order of their sequences.
  var postings: [TextTerm: [Posting]] = [:]
  /// The objects that contain each phrase.
  var phrases: [[TextTerm]: Set<UInt64>] = [:]

  init(totals: TextTotals) { self.totals = totals }

  /// Returns the matching objects in the order of their sequences.
  func hits(_ expression: TextExpression) -> [TextHit] {
    switch expression {
    case .word(let term): return hits(of: term)
    case .phrase(let terms):
      let found = phrases[terms] ?? []
      var words: [TextTerm] = []
      for term in terms where !words.contains(term) { words.append(term) }
      return intersection(words.map { hits(of: $0) }).filter { found.contains($0.sequence) }
    case .all(let parts): return intersection(parts.map { hits($0) })
    case .any(let parts):
      return parts.dropFirst().reduce(hits(parts[0])) { union($0, hits($1)) }
    case .excluding(let part, let excluded):
      return subtract(hits(excluded), from: hits(part))
    }
  }

  /// Returns hits by descending score; of equal scores, the older object is first.
  static func ranked(_ hits: [TextHit]) -> [TextHit] {
    hits.sorted { $0.score != $1.score ? $0.score > $1.score : $0.sequence < $1.sequence }
  }

  private func hits(of term: TextTerm) -> [TextHit] {
    let postings = postings[term] ?? []
    let (found, all) = (Double(postings.count), Double(max(totals.objects, 1)))
    let weight = log(1 + max(all - found + 0.5, 0.5) / (found + 0.5)) * 2.2
    let average = max(Double(totals.words) / all, 1)
    let (base, slope) = (1.2 * 0.25, 1.2 * 0.75 / average)
    return postings.map { posting in
      let occurrences = Double(posting.occurrences)
      return TextHit(
        sequence: posting.sequence,
        score: weight * occurrences / (occurrences + base + slope * Double(posting.length)))
    }
  }

  private func intersection(_ lists: [[TextHit]]) -> [TextHit] {
    let lists = lists.sorted { $0.count < $1.count }
    return lists.dropFirst().reduce(lists[0]) { shorter, longer in
      var result: [TextHit] = []
      result.reserveCapacity(shorter.count)
      var position = 0
      for hit in shorter {
        position = Self.firstPosition(in: longer, from: position, atLeast: hit.sequence)
        guard position < longer.count else { break }
        if longer[position].sequence == hit.sequence {
          result.append(TextHit(sequence: hit.sequence, score: hit.score + longer[position].score))
        }
      }
      return result
    }
  }

  /// Searches in growing steps, so that a short list passes over a long one quickly.
  private static func firstPosition(
    in hits: [TextHit], from start: Int, atLeast sequence: UInt64
  ) -> Int {
    var (low, high, step) = (start, start, 1)
    while high < hits.count, hits[high].sequence < sequence {
      low = high + 1
      high += step
      step *= 2
    }
    high = min(high, hits.count)
    while low < high {
      let middle = (low + high) / 2
      if hits[middle].sequence < sequence { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func union(_ left: [TextHit], _ right: [TextHit]) -> [TextHit] {
    var result: [TextHit] = []
    result.reserveCapacity(left.count + right.count)
    var (first, second) = (0, 0)
    while first < left.count || second < right.count {
      if second == right.count
        || first < left.count && left[first].sequence < right[second].sequence
      {
        result.append(left[first])
        first += 1
      } else if first == left.count || right[second].sequence < left[first].sequence {
        result.append(right[second])
        second += 1
      } else {
        result.append(
          TextHit(
            sequence: left[first].sequence, score: left[first].score + right[second].score))
        first += 1
        second += 1
      }
    }
    return result
  }

  private func subtract(_ excluded: [TextHit], from hits: [TextHit]) -> [TextHit] {
    var position = 0
    return hits.filter { hit in
      position = Self.firstPosition(in: excluded, from: position, atLeast: hit.sequence)
      return position == excluded.count || excluded[position].sequence != hit.sequence
    }
  }
}
