// Scores of the search. Of names that end alike, the shorter comes first: dhaga.spawn before dhaga.Scope.spawn; private
// paths such as dhaga._kernel come last.
"use strict";

var Scorer = {
  objNameMatch: 30,
  objPartialMatch: 4,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 20,
  partialTitle: 10,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score, file, kind]) => {
    if (kind !== "object") return score;
    return score - 4 * (title.split(".").length - 2) - (title.includes("._") ? 20 : 0);
  },
};
